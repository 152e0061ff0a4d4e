import { cpSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EmbeddedBackend } from '../../../../src/trainer/gradients/embedded/embedded-backend.ts';
import { readAdapter, smallBatch, someGradient } from '../../../contracts/gradient-cases.ts';
import { ADAM, KEPT } from '../../../contracts/gradient-subject.ts';
import { NANO_BASE } from './nano-adapter.ts';
import { openNano } from './nano-backend.ts';

const batch = smallBatch(1600);
const dLogProbs = someGradient(batch.targets.length);

let root: string;
let folders = 0;
const newFolder = () => join(root, `new-${++folders}`);
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'vf-embedded-state-'));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function failureOf(call: Promise<unknown>): Promise<Error> {
  return await call.then(
    () => expect.fail('Expected a rejection, the call resolved'),
    (error: unknown) => error as Error,
  );
}

describe('saveState and loadState of the embedded backend', { timeout: 60_000 }, () => {
  let shared: EmbeddedBackend;
  let state: string;
  beforeAll(async () => {
    shared = await openNano();
    const { batchId } = await shared.forward(batch, KEPT);
    await shared.backward(batchId, { dLogProbs });
    await shared.optimStep(ADAM);
    state = newFolder();
    await shared.saveState(state);
  });
  afterAll(() => shared?.close());
  const changed = (change: (directory: string) => void) => {
    const directory = newFolder();
    cpSync(state, directory, { recursive: true });
    change(directory);
    return directory;
  };
  const header = (edit: (value: Record<string, unknown>) => object) => (directory: string) => {
    const path = join(directory, 'state.json');
    writeFileSync(path, JSON.stringify(edit(JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>)));
  };
  const tensors = (edit: (bytes: Buffer) => Buffer) => (directory: string) => {
    const path = join(directory, 'state.safetensors');
    writeFileSync(path, edit(readFileSync(path)));
  };
  const renamed = (bytes: Buffer) => {
    const at = bytes.indexOf('q_proj.lora_A.value');
    return Buffer.concat([bytes.subarray(0, at), Buffer.from('x'), bytes.subarray(at + 1)]);
  };

  it.each<[string, RegExp, (directory: string) => void, code?: string]>([
    ['another base', /has base "another"/, header((value) => ({ ...value, base: 'another' }))],
    ['another rank', /has rank 4, but this run has 3/, header((value) => ({ ...value, rank: 4 }))],
    ['another alpha', /has alpha 6/, header((value) => ({ ...value, alpha: 6 }))],
    ['other modules', /has modules \{\}/, header((value) => ({ ...value, modules: {} }))],
    ['another format', /state of the embedded engine/, header((value) => ({ ...value, format: 'vf-search torch state 1' }))],
    ['an invalid step', /state of the embedded engine/, header((value) => ({ ...value, step: -1 }))],
    ['torn JSON', /not valid JSON/, (directory) => writeFileSync(join(directory, 'state.json'), '{"format":')],
    ['no tensors', /state\.safetensors/, (directory) => rmSync(join(directory, 'state.safetensors'))],
    ['torn tensors', /complete safetensors/, tensors((bytes) => bytes.subarray(0, -1000))],
    ['a tensor of another name', /q_proj\.lora_A\.value is missing/, tensors(renamed)],
    ['NaN', /NaN or an infinity/, tensors((bytes) => Buffer.concat([bytes.subarray(0, -4), Buffer.from([0, 0, 0xc0, 0x7f])])), 'not_finite'],
  ])('refuses %s and changes nothing', async (_, text, change, code = 'bad_input') => {
    const before = readAdapter((await shared.saveAdapter(newFolder())).directory);
    const error = await failureOf(shared.loadState(changed(change)));
    expect(error).toMatchObject({ code, message: expect.stringMatching(text) });
    expect(error.message).not.toContain('\n');
    expect(readAdapter((await shared.saveAdapter(newFolder())).directory)).toEqual(before);
  });

  it('holds no pickle and no path of this machine', () => {
    expect(readdirSync(state).toSorted()).toEqual(['state.json', 'state.safetensors']);
    expect(readFileSync(join(state, 'state.json'), 'utf8')).not.toContain(NANO_BASE);
  });

  it('leaves nothing behind where a directory cannot be written', async () => {
    const file = join(root, 'a-file');
    writeFileSync(file, '');
    const listed = readdirSync(root);
    expect(await failureOf(shared.saveState(join(file, 'state')))).toMatchObject({ code: 'internal' });
    expect(await failureOf(shared.saveAdapter('/proc/vf-search/adapter'))).toMatchObject({ code: 'internal' });
    expect(readdirSync(root)).toEqual(listed);
    expect(existsSync(join(file, 'state'))).toBe(false);
    expect((await shared.forward(batch, KEPT)).logProbs).toHaveLength(batch.targets.length);
  });
});
