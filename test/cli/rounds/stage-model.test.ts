/** The stages of `vf-rounds` that ask a model: what a hostile or a failing server leaves. */
import { readdirSync, readFileSync } from 'node:fs';
import { beforeEach, describe, expect, it } from 'vitest';
import { chatServer } from '../../models/chat-server.ts';
import { rowsText, traceText } from '../../rounds/trace-lines.ts';
import { PASS } from '../../rounds/vet-reply.ts';
import { group, stagesFolder } from './stages-folder.ts';

const KEY = 'sk-TOPSECRETKEY12345+/=ab';
const { at, file, manifest, roundsAlone, done } = stagesFolder();
const read = (name: string) => readFileSync(at(name), 'utf8');

beforeEach(async () => {
  file('trace.jsonl', traceText(group('rare', [1, 1, 1, 1, 1], [1, 1, 0, 0, 0])));
  file('rows.jsonl', rowsText(['rare']));
  await done('extract', '--trace', 'trace.jsonl', '-o', 'candidates.jsonl');
});

/** Replies to each of the three stages, with this in every text that it writes. */
function replying(said: string) {
  return chatServer(({ messages }) => {
    const asked = JSON.parse(messages[1]!.content) as { units?: { index: number; thinks: string[] }[]; reference_answer?: string };
    if (asked.reference_answer !== undefined) return JSON.stringify({ verdict: 'GEN_ERROR', reason: said });
    if (asked.units === undefined) return JSON.stringify({ ...PASS, reasons: [said] });
    return JSON.stringify({ units: asked.units.map(({ index, thinks }) => ({ index, thinks: thinks.map(() => said) })) });
  });
}

describe('a stage that asks a model', () => {
  it.each([
    ['vet', 'vetter', ['candidates.jsonl'], 'w.vetted.jsonl'],
    ['rewrite', 'rewriter', ['candidates.jsonl'], 'w.jsonl'],
    ['verify', 'vetter', ['--trace', 'trace.jsonl', '--rows', 'rows.jsonl', '--low', '1'], 'w.jsonl'],
  ])('%s writes no key that its server repeats, and the same bytes from the cache', async (stage, role, words, output) => {
    await using server = await replying(`key is ${KEY} ok`);
    const table = `[roles.${role}]\nbase_url = "${server.url}/v1"\nmodel = "m"\napi_key_var = "SEKRET_KEY"\ncache = "cache.jsonl"\n`;
    file('roles.toml', table);
    file('.env', `SEKRET_KEY=${KEY}\n`);
    const run = async () => {
      await done(stage, ...words, '-o', 'w.jsonl', '--config', 'roles.toml');
      return read(output);
    };
    const first = await run();
    expect(first).toContain('key is *** ok');
    for (const name of readdirSync(at('.')).filter((each) => each !== '.env'))
      expect([name, read(name).includes('TOPSECRET')]).toEqual([name, false]);
    const { length } = server.bodies;
    expect(await run()).toBe(first);
    expect(server.bodies).toHaveLength(length);
  });

  it('is refused while another process asks for the same output, so that no answer is paid twice', async () => {
    let ended: () => void = () => {};
    const second = new Promise<void>((end) => {
      ended = end;
    });
    const vet = (output: string) => roundsAlone('vet', 'candidates.jsonl', '-o', output, '--role', `vetter=m@${server.url}/v1`);
    const outcomes: { status: number | null; stderr: string }[] = [];
    await using server = await chatServer(async (_request, index) => {
      if (index === 0) {
        outcomes.push(await vet('w.jsonl'));
        ended();
      }
      await second;
      return JSON.stringify(PASS);
    });
    expect(await vet('w.jsonl')).toMatchObject({ status: 0 });
    const refusal = /^vf-rounds: Process \d+ is writing to w\.jsonl\. Wait for it or stop it, then run the command again\.\n$/;
    expect(outcomes).toEqual([{ status: 2, stdout: '', stderr: expect.stringMatching(refusal) as string }]);
    expect(server.bodies).toHaveLength(2);
    expect(readdirSync(at('.')).filter((name) => name.startsWith('.lock'))).toEqual([]);
  });

  it('rewrite keeps a think whose rewrite is empty, and does not count it as rewritten', async () => {
    await using server = await replying(' \n');
    await done('rewrite', 'candidates.jsonl', '-o', 'w.jsonl', '--role', `rewriter=m@${server.url}/v1`);
    expect(read('w.jsonl')).toBe(read('candidates.jsonl'));
    expect(manifest('w').counts).toMatchObject({ thinks: 6, thinks_rewritten: 0, thinks_reverted: 6, rewrites_not_taken: 0 });
  });
});
