// A tensor looked at as rows and columns: one head of an attention, the columns of a head, or all of it. Numbers stay where they are.

import type { Data } from './safetensors'

export interface Matrix {
  tensor: string
  data: Data
  rows: number
  columns: number
  /** Where element (0, 0) stands, and how far it is to the next row and column. */
  start: number
  down: number
  right: number
  /** The index of an element in the tensor. */
  index: (row: number, column: number) => number[]
}

export const at = (m: Matrix, row: number, column: number): number =>
  m.data[m.start + row * m.down + column * m.right] as number

/** All of a tensor of one or two axes, or one head of `[queries, keys, heads]`. */
export function matrix(tensor: string, data: Data, shape: readonly number[], head = 0): Matrix | undefined {
  const [a = 1, b = 1, c = 1] = shape
  const size = shape.reduce((x, y) => x * y, 1)
  if (size !== data.length || size === 0) return undefined
  switch (shape.length) {
    case 1:
      return { tensor, data, rows: 1, columns: a, start: 0, down: a, right: 1, index: (_, j) => [j] }
    case 2:
      return { tensor, data, rows: a, columns: b, start: 0, down: b, right: 1, index: (i, j) => [i, j] }
    case 3:
      if (head < 0 || head >= c) return undefined
      return { tensor, data, rows: a, columns: b, start: head, down: b * c, right: c, index: (i, j) => [i, j, head] }
    default:
      return undefined
  }
}

/** Some columns of a matrix. */
export function columns(m: Matrix, from: number, count: number): Matrix {
  const index = (i: number, j: number): number[] => m.index(i, j + from)
  return { ...m, start: m.start + from * m.right, columns: Math.min(count, m.columns - from), index }
}

/** Some rows of a matrix. */
export function rows(m: Matrix, from: number, count: number): Matrix {
  const index = (i: number, j: number): number[] => m.index(i + from, j)
  return { ...m, start: m.start + from * m.down, rows: Math.min(count, m.rows - from), index }
}

/** The offset of an element in a tensor of `shape`; nothing where there is none. */
export function offset(shape: readonly number[], index: readonly number[]): number | undefined {
  if (shape.length !== index.length) return undefined
  let at = 0
  for (const [axis, size] of shape.entries()) {
    const i = index[axis] as number
    if (!Number.isInteger(i) || i < 0 || i >= size) return undefined
    at = at * size + i
  }
  return at
}

/** The largest finite absolute value, and whether any is −∞. */
export function extent(m: Matrix): { largest: number; masked: boolean } {
  let largest = 0
  let masked = false
  for (let i = 0; i < m.rows; i++) {
    let from = m.start + i * m.down
    for (let j = 0; j < m.columns; j++, from += m.right) {
      const x = Math.abs(m.data[from] as number)
      if (x === Infinity) masked = true
      else if (x > largest) largest = x
    }
  }
  return { largest, masked }
}
