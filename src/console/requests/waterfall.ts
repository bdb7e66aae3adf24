/**
 * The phases of one request as bars over time.
 */
import type { LoggedRequest } from '../../frontend/index.ts'
import { h, svg } from '../data/dom.ts'
import { ms } from '../data/format.ts'
import { barsOf } from './phase-bars.ts'

const WIDTH = 900
const NAMES = 240
const ROW = 26

export function waterfall(request: LoggedRequest): HTMLElement {
  const bars = barsOf(request)
  const endMs = Math.max(...bars.map(({ toMs }) => toMs), 0.001)
  const x = (atMs: number): number => NAMES + ((WIDTH - NAMES - 70) * atMs) / endMs
  const drawn = bars.flatMap(({ name, kind, fromMs, toMs, note }, row) => [
    svg('text', { x: NAMES - 10, y: row * ROW + 18, class: 'end' }, name),
    svg(
      'rect',
      {
        x: x(fromMs),
        y: row * ROW + 5,
        width: Math.max(2, x(toMs) - x(fromMs)),
        height: ROW - 9,
        rx: 3,
        class: `phase ${kind}`,
      },
      svg('title', {}, `${name}: ${ms(fromMs)} to ${ms(toMs)}${note}`),
    ),
    svg('text', { x: x(toMs) + 6, y: row * ROW + 18, class: 'small' }, ms(toMs - fromMs)),
  ])
  const list = bars.map(({ name, fromMs, toMs, note }) =>
    h('li', {}, `${name}: from ${ms(fromMs)} to ${ms(toMs)}${note}`),
  )
  return h(
    'figure',
    { class: 'wide' },
    svg(
      'svg',
      {
        viewBox: `0 0 ${WIDTH} ${bars.length * ROW + 6}`,
        class: 'waterfall',
        'aria-hidden': 'true',
      },
      ...drawn,
    ),
    h('ol', { class: 'for-screen-readers' }, ...list),
  )
}
