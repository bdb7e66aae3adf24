import { describe, expect, it } from 'vitest'
import { KvEventFeed } from './kv-event-feed.ts'

const place = { dpRank: 0, endpoint: 'tcp://*:5557', replayEndpoint: null, topic: '' }
const open = async (places: readonly (typeof place)[]) => {
  const faults: unknown[] = []
  const feed = await KvEventFeed.open(
    {
      places,
      host: 'engine-1',
      blockTokens: 16,
      ranks: 1,
      onEvents: () => undefined,
      onFault: (error) => faults.push(error),
      onUnused: () => undefined,
    },
    () => Promise.resolve(null),
  )
  return { feed, faults }
}

describe('KvEventFeed without the package zeromq', () => {
  it('a server that publishes events - is reported, with the command that installs the package', async () => {
    const { feed, faults } = await open([place])
    expect(feed).toBeNull()
    expect(faults).toHaveLength(1)
    expect(String(faults[0])).toMatch(/engine-1.*npm i zeromq@/)
  })

  it('a server that publishes nothing - needs no package', async () => {
    expect(await open([])).toEqual({ feed: null, faults: [] })
  })
})
