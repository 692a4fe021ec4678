import { vitePreprocess } from '@sveltejs/vite-plugin-svelte'

export default {
  preprocess: vitePreprocess(),
  compilerOptions: {
    // Regions that scroll, and drawings with keys of their own, must be reached by the keyboard.
    warningFilter: ({ code }) => !['a11y_no_noninteractive_tabindex', 'a11y_no_noninteractive_element_interactions'].includes(code),
  },
}
