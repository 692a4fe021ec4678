// Where a page's numbers come from: the file itself (frozen), or the engine that served it (live). The page asks its own origin and
// nobody else.

import { type Data, base64, floats, safetensors } from './safetensors'
import { type Guess, type Manifest, type Text, manifest } from './trace'

export interface Held {
  shape: number[]
  data: Data
}

/** What is asked of the engine. */
export interface Request {
  model?: string
  text: string
  second?: string
  max_new_tokens?: number
  beams?: number
}

/** What is asked about a run. */
export interface Questions {
  edits?: Edit[]
  attribute?: boolean
  ablate?: 'heads' | 'sublayers'
  gradients?: 'input' | 'integrated'
  contrast?: string
  place?: number
}

export interface Edit {
  do: 'ablate_head'
  side: string
  sublayer: string
  layer: number
  head: number
  with: 'zero' | 'mean'
}

interface Cell {
  top: Guess[]
  wanted?: Guess | null
}

/** What the engine answers. */
export interface Answers {
  effect?: { same_bits: boolean; largest: number; places: { row: number; before: Cell; after: Cell; divergence?: number | null }[] }
  asked?: { place: Text; text: string; against_text?: string }
  attribution?: { score: number; sum: number; parts: { value: string; wrote: string; sublayer?: string; layer?: number; head?: number; share: number }[] }
  ablation?: { score: number; p: number; without: { part: string; sublayer: string; layer: number; head?: number | null; score: number; p: number }[] }
  gradients?: { score: number; tokens: { part: string; token: number; text?: string; share: number }[] }
  source: { id: number; text: string }[]
  target: { id: number; text: string }[]
}

export interface Served {
  name: string
  kind?: string
  tasks?: string[]
  formula?: string
}

/** What went wrong, in words that the engine gave, if it did. */
export class Refused extends Error {
  constructor(
    readonly code: 'lost' | 'key' | 'refused',
    message: string,
  ) {
    super(message)
  }
}

/** The tensors of one trace. */
export interface Tensors {
  /** What is here already. */
  get: (name: string) => Held | undefined
  /** What can be had. */
  load: (name: string) => Promise<Held | undefined>
  /** What cannot. */
  lacks: (name: string) => boolean
}

/** All tensors of a file. */
export function frozen(buffer: ArrayBuffer | undefined): Tensors {
  const held = buffer === undefined ? new Map<string, Held>() : safetensors(buffer)
  return { get: (name) => held.get(name), load: (name) => Promise.resolve(held.get(name)), lacks: (name) => !held.has(name) }
}

/** The engine behind the page. */
export class Engine {
  key = ''

  constructor(private readonly ask: typeof fetch) {}

  private async fetch(path: string, init?: RequestInit): Promise<Response> {
    const headers: Record<string, string> = { ...(init?.headers as Record<string, string>) }
    if (this.key) headers['authorization'] = `Bearer ${this.key}`
    let response: Response
    try {
      response = await this.ask(path, { ...init, headers })
    } catch {
      throw new Refused('lost', '')
    }
    if (response.ok) return response
    const body: unknown = await response.json().catch(() => undefined)
    const error = (body as { error?: { message?: unknown } | string } | undefined)?.error
    const message = typeof error === 'string' ? error : typeof error?.message === 'string' ? error.message : `${response.status}`
    throw new Refused(response.status === 401 ? 'key' : 'refused', message)
  }

  async models(): Promise<Served[]> {
    const answer: unknown = await (await this.fetch('/glass/models')).json()
    const list = Array.isArray(answer) ? answer : (answer as { models?: unknown }).models
    return Array.isArray(list) ? (list as Served[]) : []
  }

  async explain(request: Request): Promise<Manifest> {
    const response = await this.fetch('/glass/explain', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(request),
    })
    return manifest(await response.json())
  }

  async why(request: Request & Questions): Promise<Answers> {
    const response = await this.fetch('/glass/why', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(request),
    })
    return (await response.json()) as Answers
  }

  async document(): Promise<unknown> {
    return (await this.fetch('/glass/document')).json()
  }

  /** The tensors of the trace `id`, each fetched once, when it is wanted. */
  tensors(trace: Manifest, arrived: () => void): Tensors {
    const held = new Map<string, Held>()
    const coming = new Map<string, Promise<Held | undefined>>()
    const absent = new Set<string>()
    const shapes = new Map(trace.tensors.map((tensor) => [tensor.name, tensor.shape]))
    const load = async (name: string): Promise<Held | undefined> => {
      const shape = shapes.get(name)
      if (shape === undefined || trace.trace === undefined) return undefined
      const path = `/glass/t/${encodeURIComponent(trace.trace)}/${encodeURIComponent(name)}`
      const buffer = await (await this.fetch(path)).arrayBuffer()
      const count = shape.reduce((a, b) => a * b, 1)
      if (buffer.byteLength !== 4 * count) return undefined
      const tensor = { shape, data: floats(buffer, 0, count) }
      held.set(name, tensor)
      arrived()
      return tensor
    }
    return {
      get: (name) => held.get(name),
      load: (name) => {
        const known = held.get(name)
        if (known) return Promise.resolve(known)
        const missing = (): undefined => {
          absent.add(name)
          arrived()
        }
        const waiting = coming.get(name) ?? load(name).then((tensor) => tensor ?? missing(), missing)
        coming.set(name, waiting)
        return waiting
      },
      lacks: (name) => absent.has(name),
    }
  }
}

/** What a file has inside. */
export interface Inside {
  trace: Manifest | undefined
  tensors: Tensors
  document: unknown
}

/** Reads what lies in the page itself, by the ids of its elements. */
export function inside(read: (id: string) => string | undefined): Inside {
  const json = read('trace')
  const tensors = read('tensors')
  const document = read('document')
  return {
    trace: json === undefined ? undefined : manifest(JSON.parse(json)),
    tensors: frozen(tensors === undefined ? undefined : base64(tensors)),
    document: document === undefined ? undefined : JSON.parse(document),
  }
}
