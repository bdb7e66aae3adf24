/**
 * Compares Baton's frontend with a bare Node server and NVIDIA Dynamo, and its engine with llama.cpp's own server: the
 * table of docs/performance.md. The rows of a block are measured in one run.
 *
 *   npx tsx bench/compare-servers.ts [--dynamo DIR] [--model FOLDER] [--llama-server DIR] [--rounds 5]
 *     [--topologies aggregated,disaggregated] [--warm-up 12000]
 *     [--blocks request,token,burst,long,neighbours,memory,waiting,start,engine]
 *
 * `--dynamo` and `--llama-server` name folders with a `venv/bin/python` that has `ai-dynamo` and `xllamacpp`. CPU is
 * that of the frontend process alone (Baton's workers are child processes and do not count), memory is its resident
 * set.
 */
import { BLOCKS } from './compare-servers/blocks.ts'
import type { Setting } from './compare-servers/blocks.ts'
import { readOptions } from './load/options.ts'

const { values } = readOptions({
  options: {
    dynamo: { type: 'string' },
    model: { type: 'string', default: 'models/storyteller' },
    'llama-server': { type: 'string' },
    rounds: { type: 'string', default: '5' },
    topologies: { type: 'string', default: 'aggregated,disaggregated' },
    'warm-up': { type: 'string', default: '12000' },
    blocks: { type: 'string', default: Object.keys(BLOCKS).join(',') },
  },
})
const setting: Setting = {
  dynamo:
    values.dynamo === undefined ? null : { venvParent: values.dynamo, modelFolder: values.model },
  llamaServer: values['llama-server'] ?? null,
  rounds: Number(values.rounds),
  topologies: values.topologies.split(',') as Setting['topologies'],
  warmUpRequests: Number(values['warm-up']),
}
for (const name of values.blocks.split(',')) {
  const block = BLOCKS[name]
  if (block === undefined)
    throw new Error(`no block ${name}: expected ${Object.keys(BLOCKS).join(', ')}`)
  await block(setting)
}
