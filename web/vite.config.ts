import { fileURLToPath } from 'node:url'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'
import { single } from './build/single'

export default defineConfig({
  plugins: [svelte(), single()],
  build: {
    target: 'es2022',
    outDir: fileURLToPath(new URL('../crates/explain/page', import.meta.url)),
    emptyOutDir: false,
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 1_000_000,
    reportCompressedSize: false,
  },
})
