/** The rooms of `src/trainer` have an order: none imports from a room above it, and the joints, which lie at `src/trainer` itself, import from none. */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { parseSync } from 'oxc-parser';
import { describe, expect, it } from 'vitest';

const TRAINER = join(import.meta.dirname, '../../src/trainer');

/** From the ground up. `docs/architecture.md` shows the same order. */
const ROOMS = ['config', 'losses', 'gradients', 'credit', 'curves', 'publisher', 'records', 'sources', 'loop'];

/** 0 for a joint. The entry point, which shows what users may import, is above all rooms. */
function floorOf(file: string): number {
  if (file === 'index.ts') return ROOMS.length + 1;
  return file.includes('/') ? ROOMS.indexOf(file.split('/')[0]!) + 1 : 0;
}

/** Files of the trainer that a file of it imports, as paths under `src/trainer`. */
function importsOf(file: string): string[] {
  const { module } = parseSync(file, readFileSync(join(TRAINER, file), 'utf8'));
  const sources = module.staticImports.map(({ moduleRequest }) => moduleRequest.value);
  for (const { entries } of module.staticExports) for (const { moduleRequest } of entries) if (moduleRequest) sources.push(moduleRequest.value);
  const inside = sources.filter((source) => source.startsWith('.')).map((source) => relative(TRAINER, join(TRAINER, dirname(file), source)));
  return inside.filter((path) => !path.startsWith('..'));
}

describe('src/trainer', () => {
  const files = globSync('**/*.ts', { cwd: TRAINER }).map((file) => file.replaceAll('\\', '/'));

  it('has an order of rooms, in which no import goes up', () => {
    expect(files.filter((file) => file.includes('/') && floorOf(file) === 0)).toEqual([]);
    const up = files.flatMap((file) => importsOf(file).flatMap((used) => (floorOf(used) > floorOf(file) ? [`${file} imports ${used}`] : [])));
    expect(up).toEqual([]);
    expect(files.flatMap(importsOf).length).toBeGreaterThan(200);
  });

  it('holds the joints at its top, and nothing else', () => {
    expect(files.filter((file) => !file.includes('/')).toSorted()).toEqual([
      'credit.ts',
      'gradient-backend.ts',
      'skip-reason.ts',
      'stepped-policy.ts',
      'teacher.ts',
      'token-loss.ts',
      'training-observer.ts',
      'training-session.ts',
      'trajectory-branches.ts',
      'trajectory-source.ts',
      'trajectory.ts',
      'weight-publisher.ts',
    ]);
  });
});
