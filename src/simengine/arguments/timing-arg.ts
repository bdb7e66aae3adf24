/** Parses `timing` from JSON: polynomials, or tables, with the fields of `SimTimingOptions`. */
import { isRecord } from '../../base/index.ts'
import { numbersOf, oneOf, refuse } from './mock-arg-value.ts'
import type { SimTimingOptions } from '../scheduler/sim-timing.ts'

type Args = Readonly<Record<string, unknown>>

export function timingOf(name: string, value: unknown): SimTimingOptions {
  if (!isRecord(value)) return refuse(name, value, 'an object')
  const { kind, prefill, prefillTokensMin, foundTokenMs, decode, decodeSteps } = value
  onlyThese(name, value, [
    'kind',
    'prefill',
    'prefillTokensMin',
    'foundTokenMs',
    'decode',
    'decodeSteps',
  ])
  const known = oneOf(`${name}.kind`, kind, ['polynomial', 'linear', 'table'] as const)
  if (known === 'linear') {
    const [step, perRequest, perToken, ...more] = numbersOf(`${name}.decode`, decode)
    if (step === undefined || perRequest === undefined || perToken === undefined || more.length > 0)
      return refuse(`${name}.decode`, decode, 'three numbers: of a step, per request, per token')
    const decodeMs = [step, perRequest, perToken] as const
    const steps =
      decodeSteps === undefined ? null : recordOf(`${name}.decodeSteps`, decodeSteps, ['x', 'y'])
    return {
      kind: 'linear',
      prefill: numbersOf(`${name}.prefill`, prefill),
      ...(prefillTokensMin === undefined
        ? {}
        : { prefillTokensMin: numbersOf(`${name}.prefillTokensMin`, [prefillTokensMin])[0]! }),
      ...(foundTokenMs === undefined
        ? {}
        : { foundTokenMs: numbersOf(`${name}.foundTokenMs`, [foundTokenMs])[0]! }),
      decode: decodeMs,
      ...(steps === null
        ? {}
        : {
            decodeSteps: {
              x: numbersOf(`${name}.decodeSteps.x`, steps['x']),
              y: numbersOf(`${name}.decodeSteps.y`, steps['y']),
            },
          }),
    }
  }
  if (prefillTokensMin !== undefined)
    return refuse(`${name}.prefillTokensMin`, prefillTokensMin, "left out, but with kind 'linear'")
  if (foundTokenMs !== undefined)
    return refuse(`${name}.foundTokenMs`, foundTokenMs, "left out, but with kind 'linear'")
  if (decodeSteps !== undefined)
    return refuse(`${name}.decodeSteps`, decodeSteps, "left out, but with kind 'linear'")
  if (known === 'polynomial') {
    return {
      kind: 'polynomial',
      ...(prefill === undefined ? {} : { prefill: numbersOf(`${name}.prefill`, prefill) }),
      ...(decode === undefined ? {} : { decode: numbersOf(`${name}.decode`, decode) }),
    }
  }
  const curve = recordOf(`${name}.prefill`, prefill, ['x', 'y'])
  const grid = recordOf(`${name}.decode`, decode, ['rows', 'columns', 'values'])
  const { values } = grid
  if (!Array.isArray(values)) return refuse(`${name}.decode.values`, values, 'a list of rows')
  return {
    kind: 'table',
    prefill: {
      x: numbersOf(`${name}.prefill.x`, curve['x']),
      y: numbersOf(`${name}.prefill.y`, curve['y']),
    },
    decode: {
      rows: numbersOf(`${name}.decode.rows`, grid['rows']),
      columns: numbersOf(`${name}.decode.columns`, grid['columns']),
      values: values.map((row, i) => numbersOf(`${name}.decode.values[${i}]`, row)),
    },
  }
}

function recordOf(name: string, value: unknown, keys: readonly string[]): Args {
  if (!isRecord(value)) return refuse(name, value, `an object with ${keys.join(', ')}`)
  onlyThese(name, value, keys)
  return value
}

function onlyThese(name: string, value: Args, keys: readonly string[]): void {
  const unknownName = Object.keys(value).find((key) => !keys.includes(key))
  if (unknownName !== undefined)
    refuse(`${name}.${unknownName}`, value[unknownName], `left out: known are ${keys.join(', ')}`)
}
