// Shares of a head by words instead of tokens: parts of a source word are added, parts of a written word averaged.

import { type Matrix, at } from './matrix'
import type { Word } from './words'

export function merged(m: Matrix, rows: readonly Word[], columns: readonly Word[], place: (token: number) => number): Float32Array {
  const out = new Float32Array(rows.length * columns.length)
  for (const [i, row] of rows.entries()) {
    const own = row.tokens.map(place).filter((r) => r >= 0 && r < m.rows)
    for (const [j, column] of columns.entries()) {
      let sum = 0
      for (const r of own) for (const c of column.tokens) if (c < m.columns) sum += at(m, r, c)
      out[i * columns.length + j] = own.length > 0 ? sum / own.length : 0
    }
  }
  return out
}
