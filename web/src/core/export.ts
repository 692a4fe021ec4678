// Drawings as files: numbers as CSV, heat maps as SVG. Text of a model is escaped wherever it goes.

import { type Palette, css, shareIndex, signedIndex } from './colour'
import type { Map } from './heat'
import { type Matrix, at } from './matrix'

/** A field of CSV. What a table calculator would take for a formula gets a quotation mark in front. */
export function field(text: string): string {
  const safe = /^[=+@\t\r]|^-(?!\d)/.test(text) ? `'${text}` : text
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** Shortest text that reads back as the same f32. */
export function exact(x: number): string {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? 'nan' : x > 0 ? 'inf' : '-inf'
  for (let digits = 1; digits <= 9; digits++) {
    const text = x.toPrecision(digits)
    if (Math.fround(Number(text)) === x) return String(Number(text))
  }
  return String(x)
}

export function csv(m: Matrix, rowNames: readonly string[], columnNames: readonly string[]): string {
  const lines = [['', ...Array.from({ length: m.columns }, (_, j) => field(columnNames[j] ?? String(j)))].join(',')]
  for (let i = 0; i < m.rows; i++) {
    const cells = Array.from({ length: m.columns }, (_, j) => exact(at(m, i, j)))
    lines.push([field(rowNames[i] ?? String(i)), ...cells].join(','))
  }
  return `${lines.join('\n')}\n`
}

export const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

export function svg(m: Matrix, map: Map, palette: Palette, rowNames: readonly string[], columnNames: readonly string[], title: string): string {
  const cell = m.columns > 80 ? 4 : 24
  const left = 96
  const top = m.columns > 80 ? 32 : 72
  const [width, height] = [left + m.columns * cell + 8, top + m.rows * cell + 8]
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="monospace" font-size="12">`,
    `<title>${escape(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="${palette.paper}"/>`,
    `<text x="8" y="18" fill="${palette.ink}" font-size="13">${escape(title)}</text>`,
  ]
  for (let i = 0; i < m.rows; i++) {
    const y = top + i * cell
    parts.push(`<text x="${left - 6}" y="${y + cell / 2 + 4}" text-anchor="end" fill="${palette.ink}">${escape(rowNames[i] ?? '')}</text>`)
    for (let j = 0; j < m.columns; j++) {
      const x = at(m, i, j)
      const pixel = map.kind === 'share' ? palette.share[shareIndex(x)] : palette.signed[signedIndex(x === -Infinity ? 0 : x, map.scale || 1)]
      parts.push(`<rect x="${left + j * cell}" y="${y}" width="${cell}" height="${cell}" fill="${css(pixel as number)}"><title>${exact(x)}</title></rect>`)
    }
  }
  if (m.columns <= 80) {
    for (let j = 0; j < m.columns; j++) {
      const x = left + j * cell + cell / 2
      parts.push(`<text transform="translate(${x + 4} ${top - 6}) rotate(-60)" fill="${palette.ink}">${escape(columnNames[j] ?? '')}</text>`)
    }
  }
  return `${parts.join('\n')}\n</svg>\n`
}
