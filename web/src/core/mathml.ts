// MathML from the engine, read by an allow-list into a tree: what a page draws of it are elements made one by one, never markup.

export interface Node {
  name: string
  attributes: Record<string, string>
  children: (Node | string)[]
}

const ELEMENTS = new Set(
  'math mrow mi mo mn ms mtext mspace msub msup msubsup munder mover munderover mfrac msqrt mroot mtable mtr mtd mstyle mpadded mphantom semantics'.split(' '),
)
const ATTRIBUTES = new Set('display stretchy mathvariant id columnalign lspace rspace width symmetric fence separator form displaystyle scriptlevel minsize maxsize accent accentunder'.split(' '))

const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

function text(raw: string): string {
  return raw.replace(/&(#x[0-9a-fA-F]+|#\d+|\w+);/g, (whole, name: string) => {
    if (name.startsWith('#x')) return String.fromCodePoint(Number.parseInt(name.slice(2), 16) || 0xfffd)
    if (name.startsWith('#')) return String.fromCodePoint(Number(name.slice(1)) || 0xfffd)
    return ENTITIES[name] ?? whole
  })
}

/** The tree of `source`; nothing where it is no MathML. */
export function mathml(source: string): Node | undefined {
  const root: Node = { name: '', attributes: {}, children: [] }
  const open: Node[] = [root]
  const token = /<(\/?)([a-zA-Z]+)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>|([^<]+)/gy
  let end = 0
  for (let found = token.exec(source); found; found = token.exec(source)) {
    end = token.lastIndex
    const [, closing, name = '', attributes = '', alone, plain] = found
    const inside = open.at(-1) as Node
    if (plain !== undefined) {
      if (plain.trim() !== '') inside.children.push(text(plain))
    } else if (closing) {
      if (open.length === 1 || inside.name !== name) return undefined
      open.pop()
    } else {
      if (!ELEMENTS.has(name) || open.length > 200) return undefined
      const node: Node = { name, attributes: {}, children: [] }
      for (const [, key = '', value = ''] of attributes.matchAll(/([\w:-]+)="([^"]*)"/g)) {
        if (ATTRIBUTES.has(key)) node.attributes[key] = text(value)
      }
      inside.children.push(node)
      if (!alone) open.push(node)
    }
  }
  const [math] = root.children
  return end === source.length && open.length === 1 && typeof math === 'object' && math.name === 'math' ? math : undefined
}
