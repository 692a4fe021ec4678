// The checked document: what `glassformer explain --json` says without a text, read as far as it is drawn.

import type { Text } from './trace'

export interface Claim {
  id: string
  what: string
  printed: string
  relation: string
  truth: number
  verdict: 'right' | 'wrong'
  given_own?: { value: number; verdict: string } | null
}

export interface Part {
  section: string
  chapter?: Text | null
  title: Text
  text: Text[]
  facts: { name: Text; text: Text }[]
  tensors: { name: string; symbol: string; shape: number[]; labels: { names?: string[]; count?: number; heads?: number }[]; numbers: (number | null)[] }[]
  claims: Claim[]
}

export interface Checked {
  title: Text
  score: { total: number; right: number; wrong: number }
  steps: Part[]
}

export function checked(json: unknown): Checked | undefined {
  const document = json as Partial<Checked> & { schema?: unknown } | null | undefined
  if (!document || document.schema !== 1 || !Array.isArray(document.steps) || !document.score) return undefined
  return document as Checked
}

/** Claims about one vector stand together. */
export function vectors(claims: readonly Claim[]): { what: string; relation: string; claims: Claim[] }[] {
  const list: { what: string; relation: string; claims: Claim[] }[] = []
  for (const claim of claims) {
    const last = list.at(-1)
    if (last?.what === claim.what) last.claims.push(claim)
    else list.push({ what: claim.what, relation: claim.relation, claims: [claim] })
  }
  return list
}
