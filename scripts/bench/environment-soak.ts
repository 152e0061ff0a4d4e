/**
 * Load on `vf-serve environment`: OpenEnv sessions and token episodes at once, with disconnects, repeats, late samples and garbage. Every observation is checked against
 * its own episode, so that a mix-up between callers shows. Prints memory over time, p95 of a step without retrieval, and the slowest /health.
 * `npm run bench -- environment-soak [--sessions 256] [--episodes 256] [--seconds 300] [--think-ms 1500]`
 * Callers think between their steps, as models do: up to twice `--think-ms`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { WebSocket } from 'ws';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { Random } from '../../src/core/random.ts';

const ROOT = join(import.meta.dirname, '../..');
const { values } = parseArgs({
  options: {
    sessions: { type: 'string', default: '256' },
    episodes: { type: 'string', default: '256' },
    seconds: { type: 'string', default: '300' },
    'think-ms': { type: 'string', default: '1500' },
  },
});
const [sessions, episodes, seconds] = [Number(values.sessions), Number(values.episodes), Number(values.seconds)];
const thinkMs = Number(values['think-ms']);
const tokenizer = await openLocalTokenizer(join(ROOT, 'models/nano-base'));
const args = [
  'bin/vf-serve.js',
  'environment',
  join(import.meta.dirname, 'echo-env.ts'),
  '--tokenizer',
  'nano-base',
  '--port',
  '0',
  '--idle-timeout',
  '20',
];
const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
const [line] = (await once(child.stdout, 'data')) as [Buffer];
const url = String(line).trim();
const healthWatch = spawn(process.execPath, [join(import.meta.dirname, 'health-watch.ts'), url], { stdio: ['pipe', 'pipe', 'inherit'] });
const healthLines = createInterface({ input: healthWatch.stdout });
await once(healthLines, 'line');
const end = performance.now() + seconds * 1000;
const random = Random.fromSeed(1);
const counts = { steps: 0, ended: 0, dropped: 0, repeats: 0, garbage: 0, mixed: 0, failed: 0 };
const stepMs: number[] = [];
const memory: number[] = [];

const residentMb = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))![1]) / 1024;

async function post(path: string, body: string): Promise<{ episodes: Turn[] }> {
  const response = await fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  return (await response.json()) as { episodes: Turn[] };
}

interface Turn {
  readonly episode_id: string;
  readonly turn: number;
  readonly done?: boolean;
  readonly append_ids: readonly number[];
  readonly error?: object;
  readonly rollout?: { readonly reward: number | null };
}

/** Plays one episode after another; each says a word that nobody else says, and must hear it again. */
async function tokenCaller(caller: number): Promise<void> {
  for (let round = 0; performance.now() < end; round++) {
    const [first] = (await post('/v1/episodes', JSON.stringify({ policy: { kind: 'tokens' }, episodes: [{ example_id: caller % 8 }] }))).episodes;
    let turn = first!;
    for (let k = 0; performance.now() < end; k++) {
      const word = random.integer(6) === 0 ? 'done;' : `word ${caller} ${round} ${k};`;
      const token_ids = [...(await tokenizer.encode(word)).ids];
      const body = JSON.stringify({
        episodes: [{ episode_id: turn.episode_id, turn: turn.turn, token_ids, logprobs: token_ids.map(() => -0.5), finish_reason: 'stop' }],
      });
      await delay(random.integer(2 * thinkMs + 1));
      const began = performance.now();
      const [answer] = (await post('/v1/episodes/step', body)).episodes;
      stepMs.push(performance.now() - began);
      counts.steps += 1;
      if (random.integer(10) === 0) {
        counts.repeats += 1;
        if (JSON.stringify((await post('/v1/episodes/step', body)).episodes[0]) !== JSON.stringify(answer)) counts.mixed += 1;
      }
      if (random.integer(50) === 0) {
        counts.garbage += 1;
        await post('/v1/episodes/step', JSON.stringify({ episodes: [{ episode_id: turn.episode_id, turn: -1, token_ids: 'x' }, 7, null] }));
      }
      if (answer!.error !== undefined) counts.failed += 1;
      if (answer!.done === true) {
        counts.ended += 1;
        break;
      }
      const heard = await tokenizer.decode(Int32Array.from(answer!.append_ids));
      if (!heard.replaceAll(' ', '').includes(word.replaceAll(' ', ''))) counts.mixed += 1;
      if (random.integer(30) === 0) {
        counts.dropped += 1;
        break;
      }
      turn = answer!;
    }
  }
}

/** OpenEnv's frames over a socket, which sometimes dies without a close. */
async function socketCaller(caller: number): Promise<void> {
  while (performance.now() < end) {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/ws`);
    try {
      await once(socket, 'open');
      const ask = async (frame: object | string): Promise<{ type: string; data: { done?: boolean; observation?: { text?: string } } }> => {
        const answered = once(socket, 'message') as Promise<[Buffer]>;
        socket.send(typeof frame === 'string' ? frame : JSON.stringify(frame));
        return JSON.parse(String((await answered)[0])) as never;
      };
      await ask({ type: 'reset', data: { example_id: caller % 8 } });
      for (let k = 0; performance.now() < end; k++) {
        const word = random.integer(6) === 0 ? 'done;' : `spoken ${caller} ${k};`;
        await delay(random.integer(2 * thinkMs + 1));
        const began = performance.now();
        const { type, data } = await ask({ type: 'step', data: { text: word } });
        stepMs.push(performance.now() - began);
        counts.steps += 1;
        if (type !== 'observation') counts.failed += 1;
        else if (data.done === true) {
          counts.ended += 1;
          await ask({ type: 'reset', data: { example_id: caller % 8 } });
        } else if (!data.observation!.text!.includes(word)) counts.mixed += 1;
        if (random.integer(50) === 0) {
          counts.garbage += 1;
          await ask('{"type": "step"');
        }
        if (random.integer(40) === 0) break;
      }
      counts.dropped += 1;
    } finally {
      socket.terminate();
    }
  }
}

async function watch(): Promise<void> {
  while (performance.now() < end) {
    memory.push(residentMb());
    await delay(1000);
  }
}

await Promise.all([
  watch(),
  ...Array.from({ length: episodes }, (_, i) => tokenCaller(i)),
  ...Array.from({ length: sessions }, (_, i) => socketCaller(i)),
]);
healthWatch.stdin.end();
const [healthLine] = (await once(healthLines, 'line')) as [string];
const healthMs = JSON.parse(healthLine) as number[];
// Episodes that were dropped are freed once the idle timeout has passed.
await delay(27_000);
const health = (await (await fetch(`${url}/health`)).json()) as { episodes: number };
const quantile = (times: readonly number[], q: number) => times.toSorted((a, b) => a - b)[Math.floor((times.length - 1) * q)];
const mean = (part: readonly number[]) => part.reduce((a, b) => a + b, 0) / part.length;
const eachMinute = Array.from({ length: Math.ceil(memory.length / 60) }, (_, i) => Math.round(mean(memory.slice(i * 60, (i + 1) * 60))));
process.stdout.write(
  `${JSON.stringify({
    sessions,
    episodes,
    seconds,
    think_ms: thinkMs,
    ...counts,
    step_ms: { p50: quantile(stepMs, 0.5), p95: quantile(stepMs, 0.95), p99: quantile(stepMs, 0.99) },
    health_ms: { asked: healthMs.length, p50: quantile(healthMs, 0.5), p99: quantile(healthMs, 0.99), slowest: quantile(healthMs, 1) },
    memory_mb: { each_minute: eachMinute, most: Math.round(Math.max(...memory)), after: Math.round(residentMb()) },
    episodes_left: health.episodes,
  })}\n`,
);
child.kill('SIGKILL');
