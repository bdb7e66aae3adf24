/**
 * Loaded into a measured server with `--import`: it collects all garbage at SIGUSR2. How much garbage a server lets pile
 * up depends on its load and its limits, and is no memory of its streams.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc')
process.on('SIGUSR2', () => collect())
