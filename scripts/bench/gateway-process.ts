/**
 * `vf-serve gateway` in a process that tells its CPU time and memory, for the benches of the gateway. Behind it is a chat API, a server by token ids, or a script that repeats the last
 * message. `node --expose-gc gateway-process.ts chat|tokens URL`, or `echo`: sends its URL, and answers the messages `cpu` (milliseconds) and `memory` (bytes after a collection).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { OpenAIChatClient } from '../../src/clients/openai-chat.ts';
import type { PolicyClient } from '../../src/clients/policy-client.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { VllmTokensClient } from '../../src/clients/vllm-tokens.ts';
import { contentText } from '../../src/core/message.ts';
import { startSessionServer } from '../../src/server/gateway/start-session-server.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';

const ROOT = join(import.meta.dirname, '../..');
const [kind, url = ''] = process.argv.slice(2);
const versions = new PolicyVersions({ version: 0, model: 'scripted' });
const capabilities = { maxModelLen: 1_000_000, tokenizerHash: null, logProbsMode: 'raw', toolCalls: 'hermes', chatTemplate: 'model' } as const;

async function clientOf(): Promise<PolicyClient> {
  if (kind === 'echo') return new ScriptedClient({ turns: ({ messages }) => `heard ${contentText(messages.at(-1)!.content)}` });
  if (kind === 'chat') return new OpenAIChatClient({ baseUrls: [url], versions, stream: false });
  const chatTemplate = readFileSync(join(ROOT, 'test/golden/chat-templates/qwen-2-5.jinja'), 'utf8');
  const tokenizer = await openLocalTokenizer(join(ROOT, 'models/nano-base'), { chatTemplate });
  return new VllmTokensClient({ baseUrls: [url], versions, capabilities, tokenizer });
}

const server = await startSessionServer({
  client: await clientOf(),
  readSampling: () => ({ sampling: { temperature: 1, topP: 1 }, maxTokens: 4096 }),
  maxSessions: 4096,
  timeoutMs: 3_600_000,
  seed: 0,
  host: '127.0.0.1',
  port: 0,
  apiKey: null,
  version: '0',
  redact: (text) => text,
  onFailure: (error) => process.stderr.write(`${String(error)}\n`),
});
process.on('message', (asked) => {
  const { user, system } = process.cpuUsage();
  if (asked === 'cpu') process.send!((user + system) / 1000);
  else {
    globalThis.gc!();
    const { rss, heapUsed, external } = process.memoryUsage();
    process.send!({ rss, heap: heapUsed + external });
  }
});
process.on('disconnect', () => process.exit());
process.send!(server.url);
