/**
 * Merges the metrics of several processes into one text of the same format: each family once, each sample labelled
 * with its process.
 */
import { OPEN_METRICS_END } from './metrics-page.ts'

interface Family {
  readonly head: string[]
  readonly samples: string[]
}

interface MetricsText {
  /** The value of the label `frontend`. */
  readonly from: string
  readonly text: string
}

export function mergeMetrics(texts: readonly MetricsText[]): string {
  const families = new Map<string, Family>()
  for (const { from, text } of texts) {
    let current: Family = familyOf(families, '')
    for (const line of text.split('\n')) {
      if (line === '') continue
      const [, name] = /^# (?:HELP|TYPE) (\S+)/.exec(line) ?? []
      if (name === undefined) {
        if (!line.startsWith('#')) current.samples.push(labelled(line, from))
        continue
      }
      current = familyOf(families, name)
      if (!current.head.includes(line)) current.head.push(line)
    }
  }
  const isOpenMetrics = texts.some(({ text }) => text.endsWith(OPEN_METRICS_END))
  const lines = [...families.values()].flatMap(({ head, samples }) => [...head, ...samples])
  if (lines.length === 0) return ''
  return `${lines.join('\n')}\n${isOpenMetrics ? OPEN_METRICS_END : ''}`
}

function familyOf(families: Map<string, Family>, name: string): Family {
  const family = families.get(name) ?? { head: [], samples: [] }
  families.set(name, family)
  return family
}

/** `sample`: `name{a="b"} 1` or `name 1`. */
function labelled(sample: string, from: string): string {
  const label = `frontend="${from}"`
  const [, name = '', rest = ''] = /^([A-Za-z_:][\w:]*)(.*)$/.exec(sample) ?? []
  if (rest.startsWith('{}')) return `${name}{${label}}${rest.slice(2)}`
  if (rest.startsWith('{')) return `${name}{${label},${rest.slice(1)}`
  return `${name}{${label}}${rest}`
}
