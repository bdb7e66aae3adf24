/**
 * Options of engines at an address: served by a gateway (`--upstream`), or beside a worker (`--engine-url`).
 */
import { UPSTREAM_KINDS, upstreamsOf } from '../../upstream/index.ts'
import type { UpstreamSpec } from '../../upstream/index.ts'
import { spec } from './option-spec.ts'
import { amount, byteSize, count, flag, text, textOrList } from './option-values.ts'

/** `upstream`: the server at an address, whatever it turns out to be. */
export const ENGINE_NAMES = ['llamacpp', 'sim', 'upstream', ...UPSTREAM_KINDS] as const

export const UPSTREAM_OPTIONS = [
  spec(
    'upstream',
    'upstream',
    '<list>',
    textOrList,
    null,
    'serve the engines at these addresses instead of own workers: http://a:8000,http://b:8000, or prefill=http://…,decode=http://…; vllm+http://… names the kind, dns+http://name:8000 takes every address of the name',
  ),
  spec(
    'upstream',
    'upstreamFile',
    '<path>',
    text,
    null,
    'file with more upstreams (YAML, JSON, or an address a line), read again when it changes',
  ),
  spec(
    'forwarding',
    'forward',
    '',
    flag,
    false,
    'pass every request through to the engines at an address as it came and their answers back as they come, instead of making tokens here; routing by text, or by tokens with --model',
  ),
  spec(
    'forwarding',
    'mediaHosts',
    '<list>',
    text,
    null,
    'hosts from which addresses of images, audio and documents in requests that are passed through are fetched (by Baton, into the request): images.example.com, *.example.com, host:8443 or *; never from private addresses; unset: none is fetched, the request is refused',
  ),
  spec(
    'forwarding',
    'mediaLimit',
    '<size>',
    byteSize,
    20 * 1024 ** 2,
    'largest image, recording or document of a request that is passed through',
  ),
  spec(
    'sidecar',
    'engineUrl',
    '<url>',
    text,
    null,
    'address of the server that --engine names, for example http://127.0.0.1:8000',
  ),
  {
    ...spec(
      'foreign engine',
      'engineKey',
      '<key>',
      text,
      null,
      'API key that the upstream wants (better in BATON_ENGINE_KEY than as a flag, which others on the machine can see)',
    ),
    isSecret: true,
  },
  spec(
    'foreign engine',
    'engineRequests',
    '<n>',
    count(1, 65_536),
    1024,
    'requests in flight at one upstream; further ones are refused',
  ),
  spec(
    'foreign engine',
    'engineIdleSeconds',
    '<s>',
    amount(1, 86_400),
    120,
    'how long an upstream may send nothing in the middle of an answer',
  ),
  spec(
    'sidecar',
    'engineKvEvents',
    '<list>',
    text,
    null,
    'where the engine publishes KV events, when it does not tell: tcp://host:5557, with ;tcp://host:5558 for its replay port; commas between ranks',
  ),
  spec(
    'foreign engine',
    'engineAnswerSeconds',
    '<s>',
    amount(1, 86_400),
    300,
    'how long an upstream may take to the first byte of an answer',
  ),
  spec(
    'foreign engine',
    'slotSavePath',
    '<folder>',
    text,
    null,
    "folder of llama-server's --slot-save-path, shared by prefill and decode servers: KV is handed over in files there",
  ),
]

/** Of the option `upstream`: a list of `baton.yaml` has come as JSON. */
export function namedUpstreams(written: string | null): readonly UpstreamSpec[] {
  return upstreamsOf(written?.startsWith('[') === true ? JSON.parse(written) : written)
}
