/**
 * The moving picture: each request is a dot that moves from the entry to its prefill worker, to its decode worker,
 * and out.
 *
 * A dot gets its stops from the reported phases, one after the other, so that a request that started and ended
 * between two messages is shown too. With `prefers-reduced-motion` workers and their load are shown without dots.
 */
import { workerSums } from '../../frontend/index.ts'
import type { FleetView, LoggedRequest } from '../../frontend/index.ts'
import { svg } from '../data/dom.ts'
import { shortId } from '../data/format.ts'
import { DOOR, HEIGHT, layoutOf, WIDTH } from './fleet-layout.ts'
import type { Layout, Placed } from './fleet-layout.ts'

interface Dot {
  readonly circle: SVGCircleElement
  readonly stops: { readonly x: number; readonly y: number; readonly kind: string }[]
  /** Number of phases that have become stops. */
  taken: number
  isOver: boolean
}

const DOTS_MAX = 150
const STEP_MS = 220
/** Distance between a dot and the frame around it. */
const MARGIN = 6
/** Height of the names at the top of a box, with the dots below them. */
const NAMES_HEIGHT = 29

export class MovingRequests {
  readonly element = svg('svg', {
    class: 'picture',
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: 'img',
    'aria-label': 'Requests on their way to workers; the table below has the same in figures',
  })
  readonly #back = svg('g')
  readonly #front = svg('g')
  readonly #dots = new Map<string, Dot>()
  readonly #calm = matchMedia('(prefers-reduced-motion: reduce)')
  #layout: Layout | null = null
  #seed = 0

  constructor() {
    this.element.append(this.#back, this.#front)
    setInterval(() => this.#step(), STEP_MS)
  }

  update(fleet: FleetView, changed: readonly LoggedRequest[]): void {
    const layout = layoutOf(fleet)
    this.#layout = layout
    this.#back.replaceChildren(...drawing(layout))
    if (this.#calm.matches || document.hidden) return
    for (const request of changed) this.#follow(request, layout)
  }

  #follow(request: LoggedRequest, layout: Layout): void {
    const dot = this.#dots.get(request.requestId) ?? this.#create(request)
    if (dot === null) return
    for (const { kind, workerId } of request.phases.slice(dot.taken)) {
      const place = workerId === undefined ? undefined : layout.byWorker.get(workerId)
      if (place !== undefined && (kind === 'routed' || kind === 'kvTransferred')) {
        dot.stops.push({ ...this.#within(place), kind: place.worker.role })
      }
    }
    dot.taken = request.phases.length
    if (request.end !== null && !dot.isOver) {
      dot.isOver = true
      dot.stops.push({ x: WIDTH + 10, y: DOOR.y, kind: request.end.outcome })
    }
  }

  /** Null: there are enough dots, or the request ended before the page was opened. */
  #create(request: LoggedRequest): Dot | null {
    const isOld = request.end !== null && Date.now() - request.startedEpochMs > 5000
    if (this.#dots.size >= DOTS_MAX || isOld) return null
    const circle = svg('circle', { r: 5, class: 'dot', style: at(DOOR) })
    circle.append(svg('title', {}, request.requestId))
    this.#front.append(circle)
    const dot: Dot = { circle, stops: [], taken: 0, isOver: false }
    this.#dots.set(request.requestId, dot)
    return dot
  }

  /** A random place inside, so that dots do not cover each other, and below the names. */
  #within({ x, y, width, height, isCell }: Placed): { x: number; y: number } {
    const above = isCell ? MARGIN : NAMES_HEIGHT
    this.#seed = (this.#seed * 16_807 + 11) % 2_147_483_647
    const first = (this.#seed % 97) / 97
    const second = (this.#seed % 89) / 89
    return {
      x: x + MARGIN + first * Math.max(0, width - 2 * MARGIN),
      y: y + above + second * Math.max(0, height - above - MARGIN),
    }
  }

  #step(): void {
    if (this.#layout === null) return
    for (const [requestId, dot] of this.#dots) {
      const stop = dot.stops.shift()
      if (stop !== undefined) {
        dot.circle.setAttribute('style', at(stop))
        dot.circle.setAttribute('class', `dot ${stop.kind}`)
      } else if (dot.isOver) {
        dot.circle.remove()
        this.#dots.delete(requestId)
      }
    }
  }
}

function at({ x, y }: { readonly x: number; readonly y: number }): string {
  return `transform: translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`
}

function drawing(layout: Layout): SVGElement[] {
  const door = svg(
    'g',
    {},
    svg('rect', { x: 12, y: DOOR.y - 30, width: 96, height: 60, rx: 8, class: 'door' }),
    svg('text', { x: DOOR.x, y: DOOR.y - 11, class: 'middle' }, 'frontend'),
  )
  const columns = layout.columns.flatMap(({ title, x, workers }) => [
    svg('text', { x, y: 22, class: 'middle title' }, title),
    ...workers.map(box),
  ])
  return [door, ...columns]
}

function box(place: Placed): SVGElement {
  const { worker, x, y, width, height, isCell } = place
  const { running, kvShare } = workerSums(worker)
  const share = kvShare ?? 0
  const fill = svg('rect', {
    x,
    y: y + height * (1 - share),
    width,
    height: height * share,
    rx: isCell ? 2 : 8,
    class: 'load',
  })
  const frame = svg(
    'rect',
    { x, y, width, height, rx: isCell ? 2 : 8, class: `worker ${worker.state}` },
    svg('title', {}, `${worker.role} worker ${worker.workerId}: ${running} running`),
  )
  if (isCell) return svg('g', {}, frame, fill)
  return svg(
    'g',
    {},
    frame,
    fill,
    svg('text', { x: x + 10, y: y + 18 }, shortId(worker.workerId)),
    svg('text', { x: x + width - 10, y: y + 18, class: 'end' }, `${running} running`),
  )
}
