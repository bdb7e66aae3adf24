import { describe, it } from 'vitest'

import { LocalRequestPlane } from './local-request-plane.ts'
import { REQUEST_PLANE_CASES, WORKER } from '../../testing/request-plane-kit.ts'
import type { PlaneFactory } from '../../testing/request-plane-kit.ts'
import { TcpRequestPlane } from './tcp-request-plane.ts'
import { TcpWorkerServer } from './tcp-worker-server.ts'

const tcp: PlaneFactory = async (handler) => {
  const server = await TcpWorkerServer.listen({ handler, secret: 's3cret', workerId: WORKER })
  const plane = new TcpRequestPlane({ secret: 's3cret' })
  plane.workerJoined({ workerId: WORKER, host: server.host, port: server.port })
  return { plane, killWorker: () => server.close() }
}

const local: PlaneFactory = async (handler) => {
  const plane = new LocalRequestPlane()
  plane.addWorker(WORKER, handler)
  return { plane, killWorker: () => plane.removeWorker(WORKER) }
}

for (const [name, factory] of Object.entries({ tcp, local })) {
  describe(`request plane ${name}`, () => {
    for (const planeCase of REQUEST_PLANE_CASES) {
      it(`plane - ${planeCase.name}`, () => planeCase.run(factory))
    }
  })
}
