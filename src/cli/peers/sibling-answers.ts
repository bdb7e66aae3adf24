/**
 * Answers that need all frontends behind a port: `/metrics` sums over all of them, a routing decision is known
 * only to the frontend that made it, and a threshold applies to all.
 */
import type { Frontend, HttpHead, HttpReply, OpenRequest } from '../../frontend/index.ts'
import { mergeMetrics } from '../../host/index.ts'
import type { FrontendSiblings } from '../../host/index.ts'

interface AskedCall {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

interface Answer {
  readonly pid: number
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const TOPIC = 'http'

export class SiblingAnswers {
  readonly #frontend: Frontend
  readonly #siblings: FrontendSiblings

  constructor(frontend: Frontend, siblings: FrontendSiblings) {
    this.#frontend = frontend
    this.#siblings = siblings
    siblings.onAsked(TOPIC, (call) => this.#answerHere(call as AskedCall))
  }

  /**
   * Like the frontend's own `open`, but asks the other frontends where this one does not have the whole answer.
   */
  open(head: HttpHead): OpenRequest {
    const opened = this.#frontend.open(head)
    const join = joinFor(head)
    if (join === null || opened.reply !== undefined) return opened
    return {
      bodyBytesMax: opened.bodyBytesMax,
      refuse: (error) => opened.refuse(error),
      answer: async (body) => {
        const own = await opened.answer(body)
        if (typeof own.body !== 'string' || !join.isWanted(own)) return own
        const { method, path, query, headers } = head
        const call: AskedCall = {
          method,
          path,
          query,
          headers,
          body: new TextDecoder().decode(body),
        }
        const others = (await this.#siblings.ask(TOPIC, call)) as readonly (Answer | null)[]
        return join.merge(
          own,
          others.filter((answer) => answer !== null),
        )
      },
    }
  }

  async #answerHere(call: AskedCall): Promise<Answer> {
    const { method, path, query, headers } = call
    const signal = new AbortController().signal
    const opened = this.#frontend.open({ method, path, query, headers, signal })
    const reply = opened.reply ?? (await opened.answer(new TextEncoder().encode(call.body)))
    const body = typeof reply.body === 'string' ? reply.body : ''
    return { pid: process.pid, status: reply.status, headers: reply.headers, body }
  }
}

interface Join {
  isWanted(own: HttpReply): boolean
  merge(own: HttpReply, others: readonly Answer[]): HttpReply
}

function joinFor({ method, path }: HttpHead): Join | null {
  if (method === 'GET' && path === '/metrics') return METRICS
  if (method === 'GET' && path.startsWith('/debug/requests/')) return FIRST_THAT_KNOWS
  if (method === 'POST' && path === '/busy_threshold') return ALL_DO_IT
  return null
}

const METRICS: Join = {
  isWanted: ({ status }) => status === 200,
  merge: (own, others) => ({
    ...own,
    body: mergeMetrics([
      { from: String(process.pid), text: typeof own.body === 'string' ? own.body : '' },
      ...others.map(({ pid, body }) => ({ from: String(pid), text: body })),
    ]),
  }),
}

const FIRST_THAT_KNOWS: Join = {
  isWanted: ({ status }) => status === 404,
  merge: (own, others) => {
    const known = others.find(({ status }) => status === 200)
    return known === undefined ? own : { status: 200, headers: known.headers, body: known.body }
  },
}

const ALL_DO_IT: Join = {
  isWanted: ({ status }) => status === 200,
  merge: (own) => own,
}
