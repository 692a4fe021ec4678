// Where the branches of a beam search are drawn: a column for each word, a row for each end, parents in the middle of their children.

import type { Beams, BeamNode } from './trace'

export interface Placed {
  node: BeamNode
  column: number
  row: number
  /** Whether it lies on the way to the winner. */
  wins: boolean
}

/** The way to a finished text, from its beginning. */
export function path(beams: Beams, node: number): BeamNode[] {
  const known = new Map(beams.nodes.map((one) => [one.id, one]))
  const way: BeamNode[] = []
  let at = known.get(node)
  while (at && way.length <= beams.nodes.length) {
    way.unshift(at)
    at = at.parent === null ? undefined : known.get(at.parent)
  }
  return way
}

export function layout(beams: Beams): { placed: Placed[]; rows: number; columns: number } {
  const winner = beams.finished[beams.winner]
  const winning = new Set(winner ? path(beams, winner.node).map((node) => node.id) : [])
  const children = new Map<number | null, BeamNode[]>()
  const known = new Set(beams.nodes.map((node) => node.id))
  for (const node of beams.nodes) {
    const parent = node.parent !== null && known.has(node.parent) ? node.parent : null
    children.set(parent, [...(children.get(parent) ?? []), node])
  }
  for (const list of children.values()) {
    list.sort((a, b) => Number(winning.has(b.id)) - Number(winning.has(a.id)) || Number(b.kept) - Number(a.kept) || b.sum - a.sum)
  }
  const placed: Placed[] = []
  let rows = 0
  let columns = 0
  const place = (node: BeamNode, depth: number): number => {
    columns = Math.max(columns, node.t)
    const below = depth > 2000 ? [] : (children.get(node.id) ?? [])
    let row: number
    if (below.length === 0) row = rows++
    else row = Math.min(...below.map((child) => place(child, depth + 1)))
    placed.push({ node, column: node.t - 1, row, wins: winning.has(node.id) })
    return row
  }
  for (const root of children.get(null) ?? []) place(root, 0)
  return { placed, rows, columns }
}
