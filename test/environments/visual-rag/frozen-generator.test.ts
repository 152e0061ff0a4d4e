/** The frozen generator of DDAI's document, a model that refuses temperature, top_p and max_tokens in OpenAI's words, as a role of `vf-eval` and `vf-rounds`. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { runInProcess } from '../../cli/in-process.ts';
import { rowsText, traceText } from '../../rounds/trace-lines.ts';
import { type Loopback, loopback, readText, sendJson } from '../../transport/loopback.ts';

const MODEL = 'gpt-5-mini-2025-08-07';
const folder = mkdtempSync(join(tmpdir(), 'vf-frozen-generator-'));
afterAll(() => rmSync(folder, { recursive: true }));

type Body = Readonly<Record<string, unknown>> & { readonly messages: readonly { readonly content: unknown }[] };

const UNSUPPORTED = "Unsupported parameter: 'NAME' is not supported with this model.";

/** OpenAI's refusal of a request; null for one that it takes. */
function refusal(body: Body): object | null {
  const error = (param: string, code: string, message: string) => ({ error: { message, type: 'invalid_request_error', param, code } });
  if ('max_tokens' in body)
    return error('max_tokens', 'unsupported_parameter', `${UNSUPPORTED.replace('NAME', 'max_tokens')} Use 'max_completion_tokens' instead.`);
  if ('top_p' in body) return error('top_p', 'unsupported_parameter', UNSUPPORTED.replace('NAME', 'top_p'));
  if ('temperature' in body && body['temperature'] !== 1) {
    const message = `Unsupported value: 'temperature' does not support ${String(body['temperature'])} with this model. Only the default (1) value is supported.`;
    return error('temperature', 'unsupported_value', message);
  }
  return null;
}

async function gpt5(answer: (body: Body) => string): Promise<Loopback & { readonly taken: readonly Body[]; readonly refused: () => number }> {
  const taken: Body[] = [];
  let refused = 0;
  const server = await loopback(async (request, response) => {
    if (request.method === 'GET') return sendJson(response, 200, { data: [{ id: MODEL }] });
    const body = JSON.parse(await readText(request)) as Body;
    const refusing = refusal(body);
    if (refusing !== null) {
      refused += 1;
      return sendJson(response, 400, refusing);
    }
    taken.push(body);
    sendJson(response, 200, {
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: answer(body), refusal: null } }],
      // It counts its thoughts, which no limit of the text covers.
      usage: { prompt_tokens: 9, completion_tokens: 900, total_tokens: 909, completion_tokens_details: { reasoning_tokens: 896 } },
    });
  });
  return Object.assign(server, { taken, refused: () => refused });
}

describe('gpt-5-mini as a role', () => {
  it('answers and judges in visual-rag, with its effort and a limit for its thoughts', async () => {
    await using server = await gpt5(({ messages }) =>
      JSON.stringify(messages).includes('reference_answer') ? '{"reason": "same", "score": 1}' : '42',
    );
    const role = (name: string) => ['--role', `${name}=${MODEL}@${server.url}/v1`];
    const more = ['--role', 'generator.reasoning_effort=medium', '--role', 'judge.max_tokens=4096', '--json', '-o', folder];
    const { code, stdout } = await runInProcess('vf-eval', ['visual-rag', '-n', '2', ...role('generator'), ...role('judge'), ...more], {
      cwd: folder,
      env: {},
    });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ rollouts: { finished: 2, errored: 0 } });
    const [asked, judged] = [false, true].map((isJudge) => server.taken.filter((body) => 'response_format' in body === isJudge));
    for (const body of asked!) expect(body).toMatchObject({ max_completion_tokens: 3072, reasoning_effort: 'medium' });
    for (const body of judged!) expect(body).toMatchObject({ max_completion_tokens: 4096 });
    expect([asked!.length, judged!.length]).toEqual([2, 2]);
    const [run] = readdirSync(join(folder, 'evals'), { recursive: true, withFileTypes: true }).filter(({ name }) => name === 'metadata.json');
    const { config } = JSON.parse(readFileSync(join(run!.parentPath, 'metadata.json'), 'utf8')) as { config: { roles: unknown } };
    expect(config.roles).toEqual({ generator: `${MODEL} {"reasoning_effort":"medium"}`, judge: `${MODEL} {"max_tokens":4096}` });
  });

  it('vets references in vf-rounds verify', async () => {
    await using server = await gpt5(() => '{"verdict": "GT_ERROR", "reason": "seen on the page"}');
    const low = [0, 1].map((index) => ({ prompt: 'p', index, judge: 0, reward: 0 }));
    writeFileSync(join(folder, 'trace.jsonl'), traceText(low));
    writeFileSync(join(folder, 'rows.jsonl'), rowsText(['p']));
    const words = ['verify', '--trace', 'trace.jsonl', '--rows', 'rows.jsonl', '-o', 'list.jsonl', '--role', `vetter=${MODEL}@${server.url}/v1`];
    const ended = await runInProcess('vf-rounds', [...words, '--role', 'vetter.reasoning_effort=low'], { cwd: folder, env: {} });
    expect(ended).toMatchObject({ code: 0 });
    expect(JSON.parse(readFileSync(join(folder, 'list.jsonl'), 'utf8'))).toMatchObject({ id: 'p', exclude: true, verdict: 'GT_ERROR' });
    expect(server.taken).toHaveLength(1);
    expect(server.taken[0]).toMatchObject({ reasoning_effort: 'low' });
  });
});
