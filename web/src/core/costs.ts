// What a layer costs, counted: multiplications with additions of one layer over n tokens of width d, and the longest way between two
// tokens. The table of "Attention Is All You Need", with its constants counted out instead of left away.

export type Kind = 'attention' | 'window' | 'recurrent' | 'convolution'
export const KINDS: readonly Kind[] = ['attention', 'window', 'recurrent', 'convolution']

export interface Setting {
  width: number
  /** How many tokens a window or a convolution sees. */
  kernel: number
}

/** Multiplications with additions of one layer over `n` tokens. */
export function operations(kind: Kind, n: number, { width: d, kernel: k }: Setting): number {
  switch (kind) {
    // Queries, keys, values and the output are 4·n·d²; scores and their mixture n²·d each.
    case 'attention':
      return 4 * n * d * d + 2 * n * n * d
    case 'window':
      return 4 * n * d * d + 2 * n * Math.min(n, k) * d
    // One matrix for the state, one for the input.
    case 'recurrent':
      return 2 * n * d * d
    case 'convolution':
      return Math.min(n, k) * n * d * d
  }
}

/** How many layers or steps lie between the first token and the last. */
export function path(kind: Kind, n: number, { kernel: k }: Setting): number {
  switch (kind) {
    case 'attention':
      return 1
    case 'window':
      return Math.max(1, Math.ceil((n - 1) / Math.max(1, Math.floor(k / 2))))
    case 'recurrent':
      return Math.max(1, n - 1)
    case 'convolution':
      return Math.max(1, Math.ceil((n - 1) / Math.max(1, k - 1)))
  }
}

/** How many steps must follow each other, whatever runs beside. */
export const sequential = (kind: Kind, n: number): number => (kind === 'recurrent' ? n : 1)
