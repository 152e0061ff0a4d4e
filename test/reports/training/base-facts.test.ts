import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { baseFacts } from '../../../src/reports/training/base-facts.ts';
import { modelPath } from '../../../src/data/bundled-models.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

let folder: TemporaryFolder;
beforeEach(() => {
  folder = new TemporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

/** A model's folder, with a card of these lines. */
function model(at: string, ...card: readonly string[]): string {
  mkdirSync(join(folder.path, at), { recursive: true });
  folder.write(join(at, 'config.json'), '{}');
  if (card.length > 0) folder.write(join(at, 'README.md'), ['---', ...card, '---', '', 'license: not-this', ''].join('\n'));
  return join(folder.path, at);
}

const facts = (path: string) => baseFacts(path, { HF_HUB_CACHE: folder.path });
const SNAPSHOT = `models--Qwen--Qwen2.5-3B/snapshots/${'0'.repeat(40)}`;

describe('baseFacts', () => {
  it('of the bundled model are our own license and no hub id', () => {
    const expected = { name: 'nano-base', isBundled: true, hubId: null, license: { id: 'apache-2.0', name: null, link: null } };
    expect(facts(modelPath('nano-base'))).toEqual(expected);
  });

  it('of a hub id are itself, and the license of what was downloaded', () => {
    expect(facts('Qwen/Qwen2.5-3B')).toEqual({ name: 'Qwen2.5-3B', isBundled: false, hubId: 'Qwen/Qwen2.5-3B', license: null });
    const path = model(SNAPSHOT, 'license: other', 'license_name: qwen-research', 'license_link: LICENSE');
    const license = { id: 'other', name: 'qwen-research', link: 'https://huggingface.co/Qwen/Qwen2.5-3B/blob/main/LICENSE' };
    for (const named of ['Qwen/Qwen2.5-3B', path]) expect(facts(named)).toMatchObject({ name: 'Qwen2.5-3B', hubId: 'Qwen/Qwen2.5-3B', license });
  });

  it('say that a base sees where its configuration has a vision tower', () => {
    const path = model('seeing');
    folder.write('seeing/config.json', JSON.stringify({ model_type: 'qwen3_vl', vision_config: { depth: 2 } }));
    expect(facts(path)).toMatchObject({ name: 'seeing', sees: true });
    expect(facts(model('blind'))).not.toHaveProperty('sees');
  });

  it('of a folder are a hub id only where its card links the repository of that name', () => {
    const link = 'license_link: https://huggingface.co/Qwen/Qwen3-4B/blob/main/LICENSE';
    expect(facts(model('Qwen3-4B', 'library_name: transformers', 'license: apache-2.0  # theirs', link))).toEqual({
      name: 'Qwen3-4B',
      isBundled: false,
      hubId: 'Qwen/Qwen3-4B',
      license: { id: 'apache-2.0', name: null, link: 'https://huggingface.co/Qwen/Qwen3-4B/blob/main/LICENSE' },
    });
    expect(facts(model('my-qwen', 'license: "apache-2.0"', link))).toMatchObject({ hubId: null, license: { id: 'apache-2.0' } });
    expect(facts(model('Qwen/own'))).toEqual({ name: 'own', isBundled: false, hubId: null, license: null });
  });

  it('take no other text from a card for a license', () => {
    const cards = [['license:', '- mit'], ['license: {a: b}'], ['license: "a\\": x"'], ['license: [mit]'], ['license: |', '  mit'], ['# none']];
    for (const [i, card] of cards.entries()) expect(facts(model(`odd-${i}`, ...card)).license).toBeNull();
    const odd = model('odd', 'license: other', 'license_name: "a: b"', 'license_link: /home/somebody/LICENSE');
    expect(facts(odd).license).toEqual({ id: 'other', name: null, link: null });
  });

  it('of a copy of the bundled model are those of its card', () => {
    const path = join(folder.path, 'copy');
    cpSync(modelPath('nano-base'), path, { recursive: true });
    expect(facts(path)).toMatchObject({ name: 'copy', isBundled: false, hubId: null, license: { id: 'apache-2.0' } });
  });
});
