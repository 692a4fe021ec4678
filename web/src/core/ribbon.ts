// The ribbon: what was read above, what came of it below, and the shares of one attention head between them.

import { type Attention, type Manifest, type Token, attentions } from './trace'

export interface Below {
  /** Its text. */
  text: string
  /** Its probability, where it was chosen from others. */
  p: number | undefined
  /** The row of the attention that it was written in. */
  row: number
  /** Its place among the words that were written, from 1; 0 for what was not written. */
  t: number
  special: boolean
}

export interface Ribbon {
  above: Token[]
  below: Below[]
  /** Attentions that the curves can be of. */
  choices: Attention[]
  /** Whether keys beyond the words above are words below that were written before. */
  grows: boolean
}

export function ribbon(trace: Manifest): Ribbon {
  const all = attentions(trace)
  const { source, target } = trace.tokens
  const decode = trace.decode
  const crossing = all.filter((attention) => attention.sublayer === 'cross')
  if (decode && decode.steps.length > 0) {
    const below = decode.steps.map((step): Below => {
      const token = target.filter((one) => one.written)[step.t - 1]
      return { text: step.chosen.text, p: step.chosen.p, row: step.position, t: step.t, special: !!token?.special }
    })
    if (source.length > 0) return { above: source, below, choices: crossing.length > 0 ? crossing : all.filter((a) => a.part === 'target'), grows: false }
    const prompt = target.filter((token) => !token.written)
    return { above: prompt, below, choices: all.filter((a) => a.part === 'target'), grows: true }
  }
  const read = source.length > 0 ? source : target
  const choices = all.filter((attention) => attention.sublayer !== 'cross')
  const { places, choices: answers, kind } = trace.answer
  const probable = trace.answer.likely === 'softmax' || trace.answer.likely === 'sigmoid'
  const score = (x: number | undefined): number | undefined => (probable ? x : undefined)
  if (kind === 'blanks' && places && answers && answers.length === places.length && places.length > 0) {
    const below = places.map((row, k) => ({ text: answers[k]?.chosen ?? '', p: score(answers[k]?.score), row, t: 0, special: false }))
    return { above: read, below, choices, grows: false }
  }
  if (kind === 'classes' && answers?.[0]) {
    // The first row is what classes are read from.
    const below = [{ text: answers[0].chosen, p: score(answers[0].score), row: 0, t: 0, special: false }]
    return { above: read, below, choices, grows: false }
  }
  if (kind === 'tags' && answers && answers.length === read.length) {
    const below = answers.map((one, row) => ({ text: one.chosen, p: score(one.score), row, t: 0, special: !!read[row]?.special }))
    return { above: read, below, choices, grows: false }
  }
  if (kind === 'span' && places && places.length === 2) {
    const [first = 0, last = 0] = places
    const below = read.slice(first, last + 1).map((token, k) => ({ text: token.text, p: undefined, row: first + k, t: 0, special: false }))
    return { above: read, below, choices, grows: false }
  }
  const rows = read.map((token, row) => ({ text: token.text, p: undefined, row, t: 0, special: !!token.special }))
  return { above: read, below: rows, choices, grows: false }
}

/** The head to begin with: the one that aligns best, else the sharpest of the last layer that is not fixed on the first or on special tokens. */
export function firstHead(trace: Manifest, choice: Attention | undefined): { layer: number; head: number } {
  const best = trace.alignment?.best_head
  if (best && choice?.sublayer === 'cross') return { layer: best.layer, head: best.head }
  const layer = choice?.layers.at(-1)?.layer ?? 0
  const heads = (trace.attention?.heads ?? []).filter(
    (one) => one.part === choice?.part && one.sublayer === choice?.sublayer && one.layer === layer,
  )
  const value = (x: number | string | null | undefined): number => (typeof x === 'number' ? x : 0)
  const rank = (one: (typeof heads)[number]): number => value(one.entropy) + 4 * value(one['first'])
  const sorted = [...heads].sort((a, b) => rank(a) - rank(b))
  return { layer, head: sorted[0]?.head ?? 0 }
}
