/** Requests the same embedding twice from an engine that announces embeddings. */
import { embeddingOf } from '../embedding-of.ts'
import { RequestContext } from '../generate-context.ts'
import type { ConformanceSubject } from './conformance-subject.ts'
import { thrownText } from './thrown-text.ts'

export async function checkEmbeddings(subject: ConformanceSubject): Promise<void> {
  const { config, engine, report } = subject
  if (config.features?.includes('embeddings') !== true) {
    report.skip('embeddings', 'not a feature of this engine')
    return
  }
  const vectors: string[] = []
  for (let run = 0; run < 2; run++) {
    const request = subject.request(8, { kind: 'embed', stop: {} })
    try {
      const context = new RequestContext(request.requestId)
      const away = await subject.awayReason()
      if (away !== null) throw away
      const given = await subject.within(Promise.resolve(engine.embed?.(request, context)))
      const vector = embeddingOf(given)
      const length = config.embeddingLength ?? vector?.length
      if (vector === null || vector.length !== length) {
        report.fail(
          'embedding-wrong',
          `wanted ${length ?? 'some'} numbers, got ${thrownText(given)}`,
        )
        return
      }
      vectors.push(vector.join(' '))
    } catch (error) {
      report.fail('embedding-wrong', thrownText(error))
      return
    }
  }
  if (vectors[0] !== vectors[1])
    report.fail('embedding-wrong', 'the second result differs from the first')
}
