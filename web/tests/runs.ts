// Runs to look at: real ones, made by the program, and large ones whose numbers come from a fixed sequence.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Tensor, safetensors } from '../src/core/safetensors'
import { type Manifest, manifest } from '../src/core/trace'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

export const PAGE = here('../../crates/explain/page/index.html')
const PROGRAM = process.env['GLASSFORMER'] ?? here('../../target/release/glassformer')
/** Runs that were made before, instead of a program. */
const MADE = process.env['GLASSFORMER_RUNS']

export interface Run {
  family: string
  trace: Manifest
  tensors: Map<string, Tensor>
  /** The page with the run inside. */
  html: string
}

const ASKED: Record<string, string[]> = {
  'encoder-decoder': ['The cat sat on the mat.'],
  decoder: ['--model', here('../../fixtures/tasks/story'), '--max-new-tokens', '6', 'Once upon a time'],
  encoder: ['--model', here('../../fixtures/tasks/fill'), 'The cat [MASK] on the mat.'],
}
export const FAMILIES = Object.keys(ASKED)

export const folder = mkdtempSync(join(tmpdir(), 'glassformer-page-'))

/** The run of a family, as the program writes it: files that are read, and the page with the same inside. */
export function real(family: string): Run {
  const at = MADE === undefined ? join(folder, family) : join(MADE, family)
  const html = `${at}.html`
  if (MADE === undefined && !existsSync(html)) {
    mkdirSync(folder, { recursive: true })
    if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is not there: cargo build --release, or name one in GLASSFORMER`)
    const asked = ASKED[family] ?? []
    execFileSync(PROGRAM, ['explain', '--quiet', '--level', 'full', '--trace', at, ...asked])
    const made = `${at}.made.html`
    execFileSync(PROGRAM, ['explain', '--quiet', '--level', 'full', '--html', made, ...asked])
    // What the program put into its page, in the page as it is now.
    const data = readFileSync(made, 'utf8').match(/<script type="application\/[^>]*>[^<]*<\/script>/g) ?? []
    if (data.length !== 3) throw new Error(`${made} has ${data.length} things inside`)
    writeFileSync(html, readFileSync(PAGE, 'utf8').replace('<!-- data -->', () => data.join('\n')))
  }
  const bytes = readFileSync(join(at, 'trace.safetensors'))
  const tensors = safetensors(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer)
  return { family, trace: manifest(JSON.parse(readFileSync(join(at, 'trace.json'), 'utf8'))), tensors, html }
}

/** A sequence of numbers that is the same each time. */
export function sequence(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

/** A page with a run inside that nobody computed: as large as asked for. */
export function large(layers: number, heads: number, tokens: number, page = readFileSync(PAGE, 'utf8')): string {
  const next = sequence(7)
  const source = Array.from({ length: tokens }, (_, k) => ({ id: k, text: `t${k}`, special: false, written: false, group: k }))
  const size = tokens * tokens * heads
  const header: Record<string, unknown> = {}
  const data = new Float32Array(size * layers)
  const steps: unknown[] = []
  const tensors: unknown[] = []
  for (let layer = 0; layer < layers; layer++) {
    const name = `source.${layer}.attend.probs`
    for (let i = 0; i < tokens; i++) {
      for (let h = 0; h < heads; h++) {
        let sum = 0
        for (let j = 0; j < tokens; j++) sum += data[layer * size + (i * tokens + j) * heads + h] = next() ** 8
        for (let j = 0; j < tokens; j++) data[layer * size + (i * tokens + j) * heads + h]! /= sum
      }
    }
    header[name] = { dtype: 'F32', shape: [tokens, tokens, heads], data_offsets: [4 * layer * size, 4 * (layer + 1) * size] }
    steps.push({ id: name, kind: 'probs', part: 'source', layer, sublayer: 'attend', title: { en: 'Shares', zh: '份额' }, equation: { text: 'A = softmax(S)', operands: [] }, inputs: [], outputs: [name] })
    tensors.push({ name, symbol: 'A', shape: [tokens, tokens, heads], axes: ['source', 'source', 'heads'], stored: true, normalised: 'softmax' })
  }
  const json = {
    schema: 1, engine: { name: 'glassformer', version: '0' }, level: 'steps', model: { name: 'large', family: 'encoder' },
    formula: { unicode: 'Y' }, input: { text: 'large' }, answer: { kind: 'rows' }, tokens: { source, target: [] }, steps, tensors,
  }
  const text = new TextEncoder().encode(JSON.stringify(header))
  const file = new Uint8Array(8 + text.length + data.byteLength)
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length), true)
  file.set(text, 8)
  file.set(new Uint8Array(data.buffer), 8 + text.length)
  return put(page, JSON.stringify(json), Buffer.from(file))
}

/** What the program does when it puts a run into the page. */
export function put(page: string, json: string, tensors: Buffer): string {
  const data = `<script type="application/json" id="trace">${json.replaceAll('<', '\\u003c')}</script>\n<script type="application/octet-stream;base64" id="tensors">${tensors.toString('base64')}</script>`
  return page.replace('<!-- data -->', () => data)
}
