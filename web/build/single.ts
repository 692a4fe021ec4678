// One file: script and style go into the page, and its policy names their hashes. Nothing else may run, and nothing may be fetched
// from another place than the page's own.

import { createHash } from 'node:crypto'
import type { Plugin } from 'vite'

const hash = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** The policy for a page with this script and this style. */
export function policy(script: string, style: string): string {
  return [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    'img-src data: blob:',
    'font-src data:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ')
}

export function single(): Plugin {
  return {
    name: 'single',
    enforce: 'post',
    apply: 'build',
    generateBundle(_, bundle) {
      const page = bundle['index.html']
      if (page?.type !== 'asset') throw new Error('there is no index.html')
      let script = ''
      let style = ''
      for (const [name, part] of Object.entries(bundle)) {
        if (name === 'index.html') continue
        if (part.type === 'chunk') script += part.code
        else if (name.endsWith('.css')) style += String(part.source)
        else throw new Error(`${name} would lie beside the page`)
        delete bundle[name]
      }
      // A script ends at the first `</script`, a style at the first `</style`, wherever that stands.
      script = script.trim().replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--')
      style = style.trim()
      const html = String(page.source)
        .replace(/\s*<script[^>]*src=[^>]*><\/script>/, '')
        .replace(/\s*<link[^>]*rel="stylesheet"[^>]*>/, '')
        .replace('<!-- policy -->', () => `<meta http-equiv="Content-Security-Policy" content="${policy(script, style)}">`)
        .replace('<!-- style -->', () => `<style>${style}</style>`)
        .replace('<!-- script -->', () => `<script type="module">${script}</script>`)
      page.source = html
    },
  }
}
