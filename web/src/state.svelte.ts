// What the page shows: one run, one selection. Views read from here and change it by methods alone.

import { type Palette, PALETTES } from './core/colour'
import { type Key, type Lang, preferred, say, told } from './core/i18n'
import { type Matrix, matrix } from './core/matrix'
import { firstHead, ribbon } from './core/ribbon'
import { type Answers, Engine, type Held, type Inside, type Questions, Refused, type Request, type Served, type Tensors, frozen } from './core/source'
import { type Attention, Faulty, type Manifest, type Step, type TensorInfo, type Text, attentions, tokensOf } from './core/trace'
import { NOTHING, type Selection, read, write } from './core/url'
import { type Why, why } from './core/why'
import { readable } from './core/words'

export class Page {
  trace = $state.raw<Manifest | undefined>(undefined)
  document = $state.raw<unknown>(undefined)
  selection = $state<Selection>({ ...NOTHING })
  /** Counts tensors that arrived, so that drawings that wait for one are drawn again. */
  arrived = $state(0)
  live = $state(false)
  models = $state.raw<Served[]>([])
  busy = $state(false)
  fault = $state<{ code: string; message: string } | undefined>(undefined)
  systemDark = $state(false)
  help = $state(false)
  /** What is pointed at, apart from what is selected. */
  hover = $state<{ query: number; key: number } | undefined>(undefined)
  /** What the engine answered to questions about this run. */
  answers = $state.raw<Answers | undefined>(undefined)

  readonly engine: Engine
  private tensors: Tensors = frozen(undefined)

  constructor(engine: Engine) {
    this.engine = engine
  }

  lang = $derived<Lang>(this.selection.lang)
  theme = $derived(this.selection.theme === 'auto' ? (this.systemDark ? 'dark' : 'light') : this.selection.theme)
  palette = $derived<Palette>(PALETTES[this.theme])
  attentions = $derived<Attention[]>(this.trace ? attentions(this.trace) : [])
  ribbon = $derived(this.trace ? ribbon(this.trace) : undefined)
  steps = $derived<Step[]>(this.trace?.steps ?? [])
  stepAt = $derived(Math.max(0, this.steps.findIndex((step) => step.id === this.selection.step)))
  step = $derived<Step | undefined>(this.steps[this.stepAt])
  infos = $derived(new Map((this.trace?.tensors ?? []).map((tensor) => [tensor.name, tensor])))
  attention = $derived<Attention | undefined>(
    this.attentions.find((one) => one.key === this.selection.attention) ?? this.ribbon?.choices[0] ?? this.attentions[0],
  )
  why = $derived.by<Why | undefined>(() => {
    void this.arrived
    const { cell } = this.selection
    return this.trace && cell ? why(this.trace, (name) => this.tensors.get(name), cell.tensor, cell.index) : undefined
  })

  say = (key: Key, values?: Record<string, string | number>): string => say(this.lang, key, values)
  told = (text: Text | null | undefined): string => told(this.lang, text)
  info = (name: string): TensorInfo | undefined => this.infos.get(name)

  /** The numbers of `name`, if they are here; a drawing that asks is drawn again when they come. */
  held(name: string): Held | undefined {
    void this.arrived
    return this.tensors.get(name)
  }

  /** Fetches what a drawing wants. */
  want(names: readonly string[]): void {
    for (const name of names) {
      if (this.tensors.get(name) === undefined) void this.tensors.load(name)
    }
  }

  /** Whether the engine was asked for `name` and does not have it. */
  lacks(name: string): boolean {
    void this.arrived
    return this.tensors.lacks(name)
  }

  matrix(name: string, head = 0): Matrix | undefined {
    const held = this.held(name)
    return held && matrix(name, held.data, held.shape, head)
  }

  /** What the model is called: the last part of where it lies. */
  get modelName(): string {
    return this.trace?.model.name.split(/[\\/]/).findLast((part) => part !== '') ?? ''
  }

  /** What the places of an axis are called. */
  names(info: TensorInfo | undefined, axis: number): string[] {
    const counts = info?.axes[axis]
    const size = info?.shape[axis] ?? 0
    const tokens = this.trace && tokensOf(this.trace, counts)
    const labels = this.trace?.answer.labels
    if (counts === 'labels' && labels && labels.length === size) return labels
    if (tokens) return Array.from({ length: size }, (_, k) => readable(tokens[k]))
    return Array.from({ length: size }, (_, k) => String(k))
  }

  /** The probabilities that the ribbon's curves are of. */
  probabilities(attention = this.attention, layer = this.selection.layer): TensorInfo | undefined {
    return (attention?.layers.find((one) => one.layer === layer) ?? attention?.layers.at(-1))?.tensor
  }

  // What opens a run.

  open(inside: Inside, hash: string, languages: readonly string[]): void {
    this.document = inside.document
    this.selection = { ...NOTHING, lang: preferred(languages), ...read(hash) }
    if (inside.trace) this.show(inside.trace, inside.tensors)
  }

  show(trace: Manifest, tensors: Tensors): void {
    this.trace = trace
    this.tensors = tensors
    this.arrived++
    this.complete()
  }

  /** Fills in what the address leaves open. */
  private complete(): void {
    const s = this.selection
    const { trace } = this
    if (!trace) return
    const asked = trace.steps.find((one) => one.id === s.step)
    const own = asked && this.attentions.find((one) => one.key === `${asked.part}.${asked.sublayer}`)
    const choice = this.attentions.find((one) => one.key === s.attention) ?? own ?? this.ribbon?.choices[0] ?? this.attentions[0]
    s.attention = choice?.key ?? ''
    const first = firstHead(trace, choice)
    if (!choice?.layers.some((one) => one.layer === s.layer)) s.layer = first.layer
    if (s.head < 0 || s.head >= (choice?.heads ?? 1)) s.head = first.head
    const step = trace.steps.find((one) => one.id === s.step)
    if (!step) s.step = trace.steps[0]?.id ?? ''
    else if (step.layer !== null && choice?.key === `${step.part}.${step.sublayer}`) s.layer = step.layer
    const written = trace.decode?.steps ?? []
    if (!written.some((step) => step.t === s.t)) s.t = (written.find((step) => !this.isSpecial(step.chosen.text)) ?? written[0])?.t ?? 0
    if (s.query < 0) s.query = written.find((step) => step.t === s.t)?.position ?? this.ribbon?.below[0]?.row ?? 0
    if (s.cell && !this.infos.has(s.cell.tensor)) s.cell = null
  }

  private isSpecial = (text: string): boolean => /^<.*>$|^\[.*\]$|^[␣▁\s]*$/.test(text)


  // What changes the selection.

  select(change: Partial<Selection>): void {
    Object.assign(this.selection, change)
  }

  go(step: Step | undefined): void {
    if (!step) return
    const change: Partial<Selection> = { step: step.id, cell: null }
    const key = `${step.part}.${step.sublayer}`
    if (step.layer !== null && this.attentions.some((one) => one.key === key)) Object.assign(change, { attention: key, layer: step.layer })
    this.select(change)
  }

  next(by: number): void {
    this.go(this.steps[Math.min(this.steps.length - 1, Math.max(0, this.stepAt + by))])
  }

  /** The same step of the layer below or above, or that layer of the attention that is looked at. */
  moveLayer(by: number): void {
    const { step } = this
    if (this.selection.view === 'walk' && step?.layer !== null && step !== undefined) {
      const suffix = step.id.split('.').slice(2).join('.')
      const other = this.steps.find((one) => one.part === step.part && one.layer === (step.layer ?? 0) + by && one.id.split('.').slice(2).join('.') === suffix)
      if (other) this.go(other)
      return
    }
    const layers = this.attention?.layers ?? []
    const at = layers.findIndex((one) => one.layer === this.selection.layer)
    const other = layers[Math.min(layers.length - 1, Math.max(0, at + by))]
    if (other) this.select({ layer: other.layer })
  }

  /** A layer of the attention that is looked at; a step inside it goes along. */
  chooseLayer(layer: number): void {
    const { step, attention } = this
    this.select({ layer })
    if (this.selection.view !== 'walk' || !step || step.layer === null || `${step.part}.${step.sublayer}` !== attention?.key) return
    this.moveLayer(layer - step.layer)
  }

  moveHead(by: number): void {
    const heads = this.attention?.heads ?? 1
    this.select({ head: (this.selection.head + by + heads) % heads })
  }

  moveWord(by: number): void {
    const steps = this.trace?.decode?.steps ?? []
    const at = steps.findIndex((step) => step.t === this.selection.t)
    const other = steps[Math.min(steps.length - 1, Math.max(0, at + by))]
    if (other) this.select({ t: other.t, query: other.position })
  }

  cell(tensor: string, index: number[]): void {
    this.select({ cell: { tensor, index } })
    const step = this.steps.find((one) => one.outputs.includes(tensor))
    this.want([tensor, ...(step?.inputs ?? [])])
  }

  /** Goes where an address says, as when a reader goes back. */
  follow(hash: string): void {
    if (hash.replace(/^#/, '') === this.address()) return
    this.select({ cell: null, ...read(hash) })
    this.complete()
    const { cell } = this.selection
    if (cell) this.cell(cell.tensor, cell.index)
  }

  address(): string {
    return write(this.selection)
  }

  // What asks the engine.

  async connect(): Promise<void> {
    await this.attempt(async () => {
      this.models = await this.engine.models()
      this.live = true
      const { text, second, model } = this.selection
      if (!this.trace && text !== '') await this.run({ text, ...(second ? { second } : {}), ...(model ? { model } : {}) }, true)
      if (this.document === undefined) this.document = await this.engine.document().catch(() => undefined)
    })
  }

  /** Follows a text; `keeps` leaves the selection as an address had it. */
  async run(request: Request, keeps = false): Promise<void> {
    await this.attempt(async () => {
      const trace = await this.engine.explain(request)
      const { text, second = '', model = '' } = request
      const fresh = keeps ? {} : { step: '', cell: null, layer: -1, head: -1, query: -1, t: 0, attention: '' }
      this.selection = { ...this.selection, ...fresh, text, second, model }
      this.answers = undefined
      this.show(trace, this.engine.tensors(trace, () => this.arrived++))
    })
  }

  /** Asks why, of the run that is shown. */
  async ask(questions: Questions): Promise<void> {
    const { trace } = this
    if (!trace) return
    await this.attempt(async () => {
      const { text, second } = trace.input
      this.answers = await this.engine.why({ text, ...(second ? { second } : {}), ...(this.selection.model ? { model: this.selection.model } : {}), ...questions })
    })
  }

  private async attempt(work: () => Promise<void>): Promise<void> {
    this.busy = true
    this.fault = undefined
    try {
      await work()
    } catch (error) {
      if (error instanceof Refused) this.fault = { code: error.code, message: error.message }
      else if (error instanceof Faulty) this.fault = { code: 'trace', message: error.message }
      else throw error
    } finally {
      this.busy = false
    }
  }
}
