import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { KeyBucketNews } from './key-bucket-news.ts'

describe('KeyBucketNews', () => {
  it('a bucket that is away, lost and replaced - /health has the newest, and the log each of them', () => {
    const lines: { msg: string }[] = []
    const logger = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) })
    const news = new KeyBucketNews(logger)
    const warnings: (string | null)[] = []
    news.away('the connection to NATS was lost')
    news.follow((text) => warnings.push(text))
    news.back()
    news.lost()
    news.away('silent')
    news.back()
    news.replaced(2)
    const lost = expect.stringContaining('deleted or lost, the previous keys stay in use') as string
    expect(warnings).toEqual([
      expect.stringContaining('stay in use: the connection to NATS was lost'),
      null,
      lost,
      expect.stringContaining('unreachable, the previous keys stay in use: silent'),
      lost,
      null,
    ])
    expect(lines).toHaveLength(6)
    expect(lines.at(-1)).toMatchObject({ missing: 2, msg: expect.stringContaining('a new one') })
  })
})
