// Tokens as people read them: sub-words that belong together, bytes under their character, spaces made visible.

import type { Token } from './trace'

export interface Word {
  text: string
  /** Its tokens, as places. */
  tokens: number[]
  special: boolean
  written: boolean
}

/** Tokens of one group are one word. */
export function words(tokens: readonly Token[]): Word[] {
  const all: Word[] = []
  let last: number | null | undefined
  for (const [at, token] of tokens.entries()) {
    const group = token.group
    const word = all.at(-1)
    const joins = word !== undefined && group !== null && group !== undefined && group === last && !token.special && word.written === !!token.written
    if (joins) {
      word.tokens.push(at)
      word.text += token.text
    } else {
      all.push({ text: token.text, tokens: [at], special: !!token.special, written: !!token.written })
    }
    last = group
  }
  return all
}

/** A token's text for a label: never empty, never markup, never broken lines. */
export function readable(token: Token | undefined): string {
  if (token === undefined) return '?'
  const text = token.text.replaceAll('\n', '⏎').replaceAll('\t', '⇥').replaceAll('�', '')
  if (text !== '') return text
  if (token.bytes && token.bytes.length > 0) return byteText(token.bytes)
  return `#${token.id}`
}

/** Bytes as ⟨e7 8c⟩. */
export const byteText = (bytes: readonly number[]): string =>
  `⟨${bytes.map((byte) => byte.toString(16).padStart(2, '0')).join(' ')}⟩`

/** Long texts for narrow places. */
export function short(text: string, most = 12): string {
  const letters = [...text]
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join('')}…`
}
