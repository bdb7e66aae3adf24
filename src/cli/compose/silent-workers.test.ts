import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import { SilentWorkers } from './silent-workers.ts'

const ID = workerIdOf(7n)

/** Its worker answers the questions in this order; a question without an entry stays open. */
function silentWorkers(answers: readonly boolean[]) {
  const told: string[] = []
  const left = [...answers]
  const workers = new SilentWorkers({
    answers: () => {
      const next = left.shift()
      return next === undefined ? new Promise<boolean>(() => undefined) : Promise.resolve(next)
    },
    onLeft: (_, reason) => told.push(`left ${reason}`),
    onChanged: (_, isSilent) => told.push(isSilent ? 'silent' : 'heard'),
  })
  return { workers, told }
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('a worker whose entry has expired', () => {
  it('does not answer - has left', async () => {
    const { workers, told } = silentWorkers([false])
    workers.left(ID, 'expired')
    await settled()
    expect(told.at(-1)).toBe('left expired')
  })

  it('answers for a while - is kept that long, and told once', async () => {
    const { workers, told } = silentWorkers([true, true, false])
    workers.left(ID, 'expired')
    await settled()
    expect(told).toEqual(['silent', 'heard', 'left expired'])
  })

  it('its entry returns during a question - the answer does not count', async () => {
    const { workers, told } = silentWorkers([true, false])
    workers.left(ID, 'expired')
    workers.joined(ID)
    await settled()
    expect(told).toEqual(['heard'])
  })

  it('leaves in order while it is silent - has left at once, and only once', async () => {
    const { workers, told } = silentWorkers([true])
    workers.left(ID, 'expired')
    await settled()
    workers.left(ID, 'closed')
    await settled()
    expect(told).toEqual(['silent', 'heard', 'left closed'])
  })
})
