import { readFileSync, readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { merged } from '../src/core/align'
import { paintAtlas, sheet } from '../src/core/atlas'
import { layout, path } from '../src/core/beams'
import { bits } from '../src/core/bits'
import { PALETTES, contrast, css, inkOn, lab, shareIndex, signedIndex } from '../src/core/colour'
import { operations, path as longest } from '../src/core/costs'
import { csv, escape, exact, field, svg } from '../src/core/export'
import { blocks, signature } from '../src/core/graph'
import { fit, hit, paint, strongest } from '../src/core/heat'
import { preferred, say } from '../src/core/i18n'
import { at, columns, extent, matrix, offset, rows } from '../src/core/matrix'
import { type Node, mathml } from '../src/core/mathml'
import { bytes, decimals, fixed, number, share, size } from '../src/core/numbers'
import { base64, floats, safetensors } from '../src/core/safetensors'
import { Engine, Refused, inside } from '../src/core/source'
import { type Beams, manifest } from '../src/core/trace'
import { NOTHING, read, write } from '../src/core/url'
import { byteText, readable, short, words } from '../src/core/words'
import { en } from '../src/words/en'
import { zh } from '../src/words/zh'

describe('numbers', () => {
  it('have four significant digits and a true minus', () => {
    expect([0.123456, -1.5, 123.456, 12345.6, 0, -0, 1e-9, -2.5e12, 1e5].map((x) => number(x))).toEqual(
      ['0.1235', '−1.500', '123.5', '12346', '0', '0', '1.000·10⁻⁹', '−2.500·10¹²', '100000'])
    expect([NaN, Infinity, -Infinity].map((x) => number(x))).toEqual(['NaN', '∞', '−∞'])
  })
  it('stand below each other at the point', () => {
    expect(decimals(0.02)).toBe(5)
    expect(decimals(512)).toBe(1)
    expect([fixed(-0.00001, 3), fixed(-Infinity, 3), fixed(-1.25, 1)]).toEqual(['0.000', '−∞', '−1.3'])
  })
  it('are shares, sizes and bytes', () => {
    expect([share(0.834), share(1), share(0.001), share(0.9999, 4), share(0.996)]).toEqual(['.83', '1', '0', '.9999', '1'])
    expect([size(9876543), size(320), bytes(4_000_000)]).toEqual(['9.88M', '320', '4.00 MB'])
  })
  it('keep their bits', () => {
    expect(bits(1)).toBe('3f800000')
    expect(bits(-0)).toBe('80000000')
    const buffer = new Float32Array([0.1, -3.4e38, 1e-45])
    for (const x of buffer) expect(Math.fround(Number(exact(x)))).toBe(x)
  })
})

describe('colours', () => {
  const lightness = (pixel: number): number => lab(css(pixel))[0]
  it.each(['light', 'dark'] as const)('of shares get darker evenly, or lighter (%s)', (theme) => {
    const { share: table, paper } = PALETTES[theme]
    expect(css(table[0] as number)).toBe(paper)
    const steps = [...table].map(lightness)
    const turn = theme === 'light' ? -1 : 1
    for (let k = 1; k < 256; k++) expect(turn * ((steps[k] as number) - (steps[k - 1] as number))).toBeGreaterThan(-0.002)
    expect(turn * ((steps[255] as number) - (steps[0] as number))).toBeGreaterThan(0.5)
  })
  it.each(['light', 'dark'] as const)('of signed numbers have paper for zero (%s)', (theme) => {
    const { signed, paper } = PALETTES[theme]
    expect(css(signed[signedIndex(0, 3)] as number)).toBe(paper)
    expect([signedIndex(-9, 3), signedIndex(9, 3)]).toEqual([0, 256])
    expect(css(signed[0] as number)).not.toBe(css(signed[256] as number))
  })
  it('have ink that can be read on each of them', () => {
    for (const { share: shares, signed } of Object.values(PALETTES)) {
      for (const pixel of [...shares, ...signed]) expect(contrast(css(pixel), inkOn(css(pixel)))).toBeGreaterThanOrEqual(4.5)
    }
  })
  it('come from a table without a way out of it', () => {
    expect([NaN, -1, 0, 1, 2].map(shareIndex)).toEqual([0, 0, 0, 255, 255])
  })
  it('of the page can be read: 4.5 to 1 for text', () => {
    const style = readFileSync(new URL('../src/app.css', import.meta.url), 'utf8')
    for (const block of style.match(/:root[^{]*\{[^}]*\}/g) ?? []) {
      const colour = (name: string): string => new RegExp(`--${name}: (#[0-9a-f]{6})`).exec(block)?.[1] ?? '#000000'
      for (const name of ['ink', 'second', 'accent', 'source', 'target', 'right', 'wrong']) {
        expect(contrast(colour(name), colour('paper')), `${name} on paper`).toBeGreaterThanOrEqual(4.5)
      }
      expect(contrast(colour('third'), colour('paper'))).toBeGreaterThanOrEqual(3)
    }
  })
})

describe('matrices', () => {
  const data = Float32Array.from({ length: 24 }, (_, k) => k)
  it('are looked at without being copied', () => {
    const head = matrix('a', data, [2, 3, 4], 1)
    expect(head && at(head, 1, 2)).toBe(21)
    expect(head?.index(1, 2)).toEqual([1, 2, 1])
    const whole = matrix('a', data, [4, 6])
    const part = whole && rows(columns(whole, 2, 3), 1, 9)
    expect(part && [part.rows, part.columns, at(part, 0, 0), at(part, 2, 2)]).toEqual([3, 3, 8, 22])
    expect(part?.index(2, 2)).toEqual([3, 4])
  })
  it('of shapes that cannot be are none', () => {
    expect(matrix('a', data, [5, 5])).toBeUndefined()
    expect(matrix('a', data, [2, 3, 4], 4)).toBeUndefined()
    expect(matrix('a', new Float32Array(0), [0, 4])).toBeUndefined()
    expect(offset([2, 3], [1, 3])).toBeUndefined()
    expect(offset([2, 3], [1, 2])).toBe(5)
  })
  it('know their extent', () => {
    const m = matrix('a', Float32Array.of(1, -7, -Infinity, 2), [2, 2])
    expect(m && extent(m)).toEqual({ largest: 7, masked: true })
  })
})

describe('heat maps', () => {
  it('paint each number in its own place', () => {
    const m = matrix('a', Float32Array.of(0, 1, 0.5, 0.25, 0, 1), [2, 3])
    const pixels = new Uint32Array(5 * 4)
    if (m) paint(pixels, 5, 1, 1, m, { kind: 'share' }, PALETTES.light)
    const table = PALETTES.light.share
    expect([...pixels]).toEqual([
      0, 0, 0, 0, 0,
      0, table[0], table[255], table[128], 0,
      0, table[64], table[0], table[255], 0,
      0, 0, 0, 0, 0,
    ])
  })
  it('pool honestly: the strongest of a block, −∞ only where there is nothing else', () => {
    const m = matrix('a', Float32Array.of(1, -5, -Infinity, -Infinity, 2, 3, -Infinity, -Infinity), [2, 4])
    const pooled = fit({ rows: 2, columns: 4 }, 2, 1)
    expect(pooled).toEqual({ rows: 1, columns: 2, down: 2, right: 2 })
    expect(m && [strongest(m, 0, 0, pooled), strongest(m, 0, 1, pooled)]).toEqual([-5, -Infinity])
    const pixels = new Uint32Array(2)
    if (m) paint(pixels, 2, 0, 0, m, { kind: 'signed', scale: 5 }, PALETTES.light, pooled)
    expect([...pixels]).toEqual([PALETTES.light.signed[0], 0])
  })
  it('find what is pointed at', () => {
    expect(hit(99, 0, 100, 50, { rows: 5, columns: 10 })).toEqual({ row: 0, column: 9 })
    expect(hit(100, 0, 100, 50, { rows: 5, columns: 10 })).toBeUndefined()
  })
  it('of all heads stand in reading order', () => {
    const data = Float32Array.of(0, 1, 1, 0)
    const plan = sheet({ rows: 1, columns: 1 }, 2, 2, 16)
    const pixels = new Uint32Array(plan.width * plan.height)
    const heads = [0, 1, 2, 3].map((k) => matrix('a', data.subarray(k, k + 1), [1, 1]))
    paintAtlas(pixels, plan, 2, heads, PALETTES.light)
    const step = 1 + plan.gap
    const seen = [0, step, plan.width * step, plan.width * step + step].map((k) => pixels[k])
    expect(seen).toEqual([0, 255, 255, 0].map((k) => PALETTES.light.share[k]))
  })
})

describe('safetensors', () => {
  const file = (header: unknown, numbers: number[]): ArrayBuffer => {
    const text = new TextEncoder().encode(JSON.stringify(header))
    const out = new Uint8Array(8 + text.length + 4 * numbers.length)
    new DataView(out.buffer).setBigUint64(0, BigInt(text.length), true)
    out.set(text, 8)
    out.set(new Uint8Array(Float32Array.from(numbers).buffer), 8 + text.length)
    return out.buffer
  }
  it('are read, wherever their numbers begin', () => {
    for (const pad of ['', ' ', '  ', '   ']) {
      const read = safetensors(file({ [`a${pad}`]: { dtype: 'F32', shape: [2], data_offsets: [0, 8] }, __metadata__: {} }, [1, 2]))
      expect([...(read.get(`a${pad}`)?.data ?? [])]).toEqual([1, 2])
    }
    expect([...floats(base64('AAAAAAAAgD8AAABA'), 4, 2)]).toEqual([1, 2])
  })
  it.each([
    ['cut short', { a: { dtype: 'F32', shape: [3], data_offsets: [0, 12] } }],
    ['another type', { a: { dtype: 'F16', shape: [2], data_offsets: [0, 8] } }],
    ['a shape that is not its size', { a: { dtype: 'F32', shape: [1], data_offsets: [0, 8] } }],
    ['a negative shape', { a: { dtype: 'F32', shape: [-1, -2], data_offsets: [0, 8] } }],
    ['no offsets', { a: { dtype: 'F32', shape: [2] } }],
  ])('that are wrong are refused: %s', (_, header) => {
    expect(() => safetensors(file(header, [1, 2]))).toThrow()
  })
  it('of no length are refused', () => {
    expect(() => safetensors(new ArrayBuffer(4))).toThrow()
    expect(() => safetensors(new Uint8Array([255, 255, 255, 255, 255, 255, 255, 255, 0]).buffer)).toThrow()
  })
})

describe('traces', () => {
  it.each([[null], [{}], [{ schema: 2 }], [{ schema: 1, model: {} }], [{ schema: 1, model: {}, formula: {}, input: {}, tokens: { source: [], target: [] }, steps: [{}], tensors: [] }]])('that are none are refused: %j', (json) => {
    expect(() => manifest(json)).toThrow()
  })
  it('lie in the page by the ids of its elements', () => {
    const found = inside((id) => (id === 'document' ? '{"schema":1}' : undefined))
    expect(found.trace).toBeUndefined()
    expect(found.document).toEqual({ schema: 1 })
  })
  it('say why the engine refuses', async () => {
    const answer = (status: number, body: unknown) => new Engine(() => Promise.resolve(new Response(JSON.stringify(body), { status })))
    await expect(answer(401, { error: { message: 'a key' } }).models()).rejects.toMatchObject({ code: 'key', message: 'a key' })
    await expect(answer(422, { error: { message: 'too long' } }).explain({ text: 'a' })).rejects.toMatchObject({ code: 'refused', message: 'too long' })
    await expect(new Engine(() => Promise.reject(new TypeError('gone'))).models()).rejects.toBeInstanceOf(Refused)
  })
})

describe('the address', () => {
  it('brings a selection back', () => {
    const selection = { ...NOTHING, view: 'attention' as const, step: 'source.0.attend.probs', attention: 'target.cross', layer: 2, head: 5, query: 1, key: 0, t: 3, zoom: 6, text: 'a & 猫 #?', second: '', model: 'm', cell: { tensor: 'a.b', index: [1, 2, 3] }, lang: 'zh' as const, theme: 'dark' as const }
    expect({ ...NOTHING, ...read(`#${write(selection)}`) }).toEqual(selection)
  })
  it('that makes no sense selects nothing', () => {
    expect(read('#view=evil&layer=-1&head=1e9&zoom=7&cell=a:b&lang=fr&theme=x&t=%')).toEqual({})
  })
})

describe('words', () => {
  it('are the same in both languages, and none is left untranslated', () => {
    expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort())
    for (const [key, text] of Object.entries(zh)) {
      expect(text.trim(), key).not.toBe('')
      // Some are marks alone.
      if (/[a-z]/i.test(en[key as keyof typeof en].replace(/\{[^}]*\}/g, '')) && !key.startsWith('lang.')) expect(/[\u4e00-\u9fff]/.test(text), key).toBe(true)
      const holes = (of: string): string[] => [...of.matchAll(/\{(\w+)/g)].map((hole) => hole[1] as string).sort()
      expect(holes(text), key).toEqual(holes(en[key as keyof typeof en]))
    }
  })
  it('stand in no component', () => {
    const folder = new URL('../src/view/', import.meta.url)
    for (const name of readdirSync(folder).filter((file) => file.endsWith('.svelte'))) {
      const markup = readFileSync(new URL(name, folder), 'utf8').replace(/<script[\s\S]*?<\/script>|<style[\s\S]*?<\/style>|<!--[\s\S]*?-->/g, '')
      // The program's own name stands everywhere.
      const plain = markup.replace(/\{[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*\}/g, '').replace(/<[^>]*>/g, '').replace(/&\w+;/g, '').replaceAll('Glassformer', '').replaceAll('CSV', '').replaceAll('SVG', '').replaceAll('JSON', '')
      expect(plain.match(/[A-Za-z]{3,}/g) ?? [], name).toEqual([])
    }
  })
  it('are filled in', () => {
    expect(say('en', 'stage.place', { n: 3, all: 9 })).toBe('step 3 of 9')
    expect(say('zh', 'head.number', { n: 2 })).toBe('第 2 头')
    expect([preferred(['fr', 'zh-TW', 'en']), preferred(['de']), preferred(['en-GB', 'zh'])]).toEqual(['zh', 'en', 'en'])
  })
  it('join tokens that belong together', () => {
    const token = (text: string, group: number, special = false) => ({ id: 1, text, group, special })
    expect(words([token('re', 0), token('act', 0), token('s', 1), token('</s>', 1, true)]).map((word) => word.text)).toEqual(['react', 's', '</s>'])
  })
  it('show bytes under their character, never a broken sign', () => {
    expect(readable({ id: 9, text: '', bytes: [0xe7, 0x8c] })).toBe('⟨e7 8c⟩')
    expect(readable({ id: 9, text: '\ufffd' })).toBe('#9')
    expect(readable({ id: 9, text: 'a\nb' })).toBe('a⏎b')
    expect([byteText([0]), short('abcdef', 4), readable(undefined)]).toEqual(['⟨00⟩', 'abc…', '?'])
  })
  it('are aligned by their parts: added over the source, averaged over what was written', () => {
    const m = matrix('a', Float32Array.of(0.5, 0.25, 0.25, 0, 1, 0), [2, 3])
    const word = (...tokens: number[]) => ({ text: '', tokens, special: false, written: false })
    expect(m && [...merged(m, [word(0, 1)], [word(0), word(1, 2)], (token) => token)]).toEqual([0.25, 0.75])
  })
})

describe('formulas', () => {
  it('are read as trees', () => {
    const tree = mathml('<math xmlns="x"><mi id="a">Y</mi><mo>&lt;</mo><mspace width="1em"/></math>')
    expect(tree?.children.map((child) => (child as Node).name)).toEqual(['mi', 'mo', 'mspace'])
    expect((tree?.children[1] as Node).children).toEqual(['<'])
  })
  it.each([
    '<math><script>alert(1)</script></math>', '<math><mi onclick="x">a</mi', '<svg></svg>', '<math><mi>a</math>', 'text', '', '<math></math><math>',
    '<math><maction actiontype="x"></maction></math>',
  ])('that are none are refused: %s', (source) => {
    expect(mathml(source)).toBeUndefined()
  })
  it('keep known attributes alone', () => {
    const tree = mathml('<math><mi onclick="x" href="javascript:1" id="a">a</mi></math>')
    expect((tree?.children[0] as Node).attributes).toEqual({ id: 'a' })
  })
})

describe('beams', () => {
  const node = (id: number, parent: number | null, t: number, sum: number, kept = true) => ({ id, parent, t, token: { id, text: String(id) }, logprob: -1, sum, kept, finished: false, rank: 1 })
  const beams: Beams = {
    width: 2, length_penalty: 1, nodes: [node(0, null, 1, -1), node(1, null, 1, -2, false), node(2, 0, 2, -3, false), node(3, 0, 2, -2)],
    finished: [{ node: 3, sum: -2, length: 2, penalty: 1, score: -1, arithmetic: '' }], winner: 0,
  }
  it('put the winner first, and every branch in a row of its own', () => {
    const { placed, rows: count, columns: wide } = layout(beams)
    const rowOf = (id: number): number | undefined => placed.find((one) => one.node.id === id)?.row
    expect([rowOf(0), rowOf(3), rowOf(2), rowOf(1)]).toEqual([0, 0, 1, 2])
    expect([count, wide]).toEqual([3, 2])
    expect(placed.filter((one) => one.wins).map((one) => one.node.id).sort()).toEqual([0, 3])
    expect(path(beams, 3).map((one) => one.id)).toEqual([0, 3])
  })
  it('that go in a circle end', () => {
    const circle = { ...beams, nodes: [node(0, 1, 1, 0), node(1, 0, 2, 0)] }
    expect(path(circle, 0).length).toBeLessThan(5)
    expect(layout(circle).placed).toEqual([])
  })
})

describe('files', () => {
  it('are tables that no calculator runs', () => {
    expect([field('=1+1'), field('a,"b"'), field('−1'), field('-x'), field('-1')]).toEqual(["'=1+1", '"a,""b"""', '−1', "'-x", '-1'])
    const m = matrix('a', Float32Array.of(0.1, -Infinity), [1, 2])
    expect(m && csv(m, ['a'], ['x', '=y'])).toBe(",x,'=y\na,0.1,-inf\n")
  })
  it('are drawings without markup of a model', () => {
    const m = matrix('a', Float32Array.of(0.5), [1, 1])
    const drawing = m ? svg(m, { kind: 'share' }, PALETTES.light, ['<script>'], ['&'], '"') : ''
    expect(drawing).not.toContain('<script>')
    expect(drawing).toContain('&lt;script&gt;')
    expect(escape('<&">')).toBe('&lt;&amp;&quot;&gt;')
  })
})

describe('what it costs', () => {
  it('is counted as the papers count', () => {
    const setting = { width: 4, kernel: 3 }
    expect(operations('attention', 2, setting)).toBe(4 * 2 * 16 + 2 * 4 * 4)
    expect(operations('window', 100, setting)).toBeLessThan(operations('attention', 100, setting))
    expect(operations('recurrent', 7, setting)).toBe(2 * 7 * 16)
    expect([longest('attention', 9, setting), longest('recurrent', 9, setting), longest('convolution', 9, setting)]).toEqual([1, 8, 4])
  })
})

describe('the graph', () => {
  it('nests steps and folds layers that are alike', () => {
    const step = (id: string, layer: number | null, sublayer: string) => ({ id, kind: 'add', part: 'source', layer, sublayer, title: { en: '', zh: '' }, equation: null, inputs: [], outputs: [id] })
    const trace = { steps: [step('e', null, 'embed'), step('a0', 0, 'attend'), step('a1', 1, 'attend')], tensors: [] } as unknown as Parameters<typeof blocks>[0]
    const [part] = blocks(trace)
    expect(part?.blocks.map((block) => block.kind)).toEqual(['sublayer', 'layer', 'layer'])
    const [, a, b] = part?.blocks ?? []
    expect(a && b && signature(a) === signature(b)).toBe(true)
  })
})
