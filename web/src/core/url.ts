// What is selected, as the part of the address behind #. One selection drives all views, and its address brings it back.

export const VIEWS = ['walk', 'attention', 'alignment', 'decoding', 'lens', 'graph', 'why', 'lab', 'model', 'costs', 'document'] as const
export type View = (typeof VIEWS)[number]

export interface Selection {
  view: View
  /** The step that is told, by name. */
  step: string
  /** Which attention: `target.cross`. */
  attention: string
  layer: number
  head: number
  query: number
  key: number
  /** The word that is being written, from 1. */
  t: number
  /** A number that was clicked. */
  cell: { tensor: string; index: number[] } | null
  /** From 1, a black box, to 6, its numbers. */
  zoom: number
  /** What is asked of an engine: a text, a second one, a model. A page with its run inside has none. */
  text: string
  second: string
  model: string
  lang: 'en' | 'zh'
  theme: 'light' | 'dark' | 'auto'
}

export const NOTHING: Selection = {
  view: 'walk',
  step: '',
  attention: '',
  layer: -1,
  head: -1,
  query: -1,
  key: -1,
  t: 0,
  cell: null,
  zoom: 5,
  text: '',
  second: '',
  model: '',
  lang: 'en',
  theme: 'auto',
}

const isCount = (text: string | null): text is string => text !== null && /^\d{1,6}$/.test(text)

export function write(selection: Selection): string {
  const fields = new URLSearchParams()
  for (const name of ['view', 'step', 'attention', 'layer', 'head', 'query', 'key', 't', 'zoom', 'text', 'second', 'model', 'lang', 'theme'] as const) {
    const value = selection[name]
    if (value !== NOTHING[name] || name === 'lang') fields.set(name, String(value))
  }
  if (selection.cell) fields.set('cell', `${selection.cell.tensor}:${selection.cell.index.join(',')}`)
  return fields.toString().replaceAll('%3A', ':').replaceAll('%2C', ',')
}

/** What an address says; what makes no sense in it is as if it were not there. */
export function read(hash: string): Partial<Selection> {
  const fields = new URLSearchParams(hash.replace(/^#/, ''))
  const found: Partial<Selection> = {}
  const view = fields.get('view')
  if (VIEWS.includes(view as View)) found.view = view as View
  for (const name of ['step', 'attention', 'text', 'second', 'model'] as const) {
    const value = fields.get(name)
    if (value !== null) found[name] = value
  }
  for (const name of ['layer', 'head', 'query', 'key', 't'] as const) {
    const value = fields.get(name)
    if (isCount(value)) found[name] = Number(value)
  }
  const zoom = fields.get('zoom')
  if (zoom !== null && /^[1-6]$/.test(zoom)) found.zoom = Number(zoom)
  const lang = fields.get('lang')
  if (lang === 'en' || lang === 'zh') found.lang = lang
  const theme = fields.get('theme')
  if (theme === 'light' || theme === 'dark' || theme === 'auto') found.theme = theme
  const cell = /^(.+):(\d+(?:,\d+)*)$/.exec(fields.get('cell') ?? '')
  if (cell) found.cell = { tensor: cell[1] as string, index: (cell[2] as string).split(',').map(Number) }
  return found
}
