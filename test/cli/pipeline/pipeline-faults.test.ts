/** A run of Search-o1's pipeline that is killed, or whose disk is full, goes on from there. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../../transport/loopback.ts';
import { TemporaryFolder } from '../eval/temporary-folder.ts';
import { pipeline, ROOT, start } from './pipeline-process.ts';
import { flagsFor, searchO1Servers } from './search-o1-servers.ts';

const SEARCH_O1 = 'examples/search_o1.yaml';
/** Five questions, each with a query, a refinement and an answer. */
const REPLIES = 15;
const hang = () => new Promise(() => {});

function file(folder: TemporaryFolder, name: string): string {
  const found = readdirSync(folder.path, { recursive: true, encoding: 'utf8' }).find((path) => path.endsWith(name));
  return found === undefined ? '' : readFileSync(join(folder.path, found), 'utf8');
}
const lines = (text: string, part: string) => text.split('\n').filter((line) => line.includes(part)).length;
const result = (folder: TemporaryFolder) => (JSON.parse(file(folder, 'result.json')) as { variables: Record<string, unknown> }).variables;

describe('vf-pipeline run -R', () => {
  /** Kills the run once so many replies are on file, goes on, and returns how many were asked for in all. */
  async function goOnAfterAKill(kept: number): Promise<number> {
    using folder = new TemporaryFolder();
    let isHolding = true;
    let begun = 0;
    await using server = await searchO1Servers({ hold: async () => (isHolding && begun++ >= kept ? hang() : undefined) });
    const args = ['run', SEARCH_O1, ...flagsFor(server.url)];
    const first = start('vf-pipeline', args, folder.path);
    // After the last reply, the kill falls into whatever comes next: the metrics, or the result.
    await until(() => (kept === 0 ? begun > 0 : lines(file(folder, 'calls.jsonl'), '"part"') >= kept));
    first.child.kill('SIGKILL');
    await first.ended;
    isHolding = false;
    const second = await pipeline([...args, '-R'], folder.path);
    expect(second.stdout).toMatch(/^acc +0\.200$/m);
    expect(new Set(server.asked).size).toBe(REPLIES);
    return server.asked.length;
  }

  it('goes on after a kill once 7 of 15 replies are on file, and asks for no reply twice', async () => {
    expect(await goOnAfterAKill(7)).toBe(REPLIES);
  });

  it.each([0, 3, 5, 12, 15])('does so once %i are', { tags: 'long' }, async (kept) => {
    expect(await goOnAfterAKill(kept)).toBe(REPLIES);
  });

  it('ends when the account has no credit left, and asks for no reply twice once it has some', async () => {
    using folder = new TemporaryFolder();
    let begun = 0;
    let hasCredit = false;
    await using server = await searchO1Servers({ hold: async () => (hasCredit || begun++ < 7 ? undefined : 402) });
    const args = ['run', SEARCH_O1, ...flagsFor(server.url), '--set', 'generation.concurrency=1'];
    const first = await pipeline(args, folder.path);
    expect(first).toMatchObject({ status: 1, stderr: expect.stringMatching(/credit or quota of the API key is used up: .* 402 /) as string });
    hasCredit = true;
    const second = await pipeline([...args, '-R'], folder.path);
    expect(second.stdout).toMatch(/^acc +0\.200$/m);
    expect(server.asked).toHaveLength(REPLIES);
  });

  it('goes on after a kill between two steps, with the result of a run that was not killed', async () => {
    using folder = new TemporaryFolder();
    let isHolding = true;
    await using server = await searchO1Servers({ holdSearch: async () => (isHolding ? hang() : undefined) });
    const args = ['run', SEARCH_O1, ...flagsFor(server.url)];
    const first = start('vf-pipeline', args, folder.path);
    await until(
      () => server.requests.includes('POST /search') && lines(file(folder, 'calls.jsonl'), '"step":"custom.search_o1_query_extract"') === 1,
    );
    first.child.kill('SIGKILL');
    await first.ended;
    isHolding = false;
    const second = await pipeline([...args, '-R'], folder.path);
    expect(second.stderr).toMatch(/continuing after 5 complete calls in /);
    expect(server.asked).toHaveLength(REPLIES);
    using other = new TemporaryFolder();
    await pipeline(args, other.path);
    expect(result(folder)).toEqual(result(other));
  });
});

const canMount = spawnSync('unshare', ['-Urm', 'true']).status === 0;

describe.runIf(canMount)('a full disk', () => {
  it('ends the run with one line and the way to go on, keeps what was recorded, and the resume asks for nothing twice', async () => {
    using folder = new TemporaryFolder();
    await using server = await searchO1Servers();
    const run = `"$@" run ${join(ROOT, SEARCH_O1)} ${flagsFor(server.url).join(' ')} --set evaluation.save_path=null`;
    const steps = [
      'set -e',
      'mkdir outputs',
      'mount -t tmpfs -o size=24k tmpfs outputs',
      `${run} 2> first.txt > /dev/null && exit 9 || echo $? > code.txt`,
      'cp outputs/pipelines/*/*/calls.jsonl left.jsonl',
      'mount -o remount,size=16m outputs',
      `${run} -R > second.txt`,
    ];
    const command = [process.execPath, '--conditions=vf-search-source', join(ROOT, 'src/cli/vf-pipeline.ts')];
    const child = spawn('unshare', ['-Urm', 'sh', '-c', steps.join('\n'), 'sh', ...command], { cwd: folder.path, stdio: 'ignore' });
    const [code] = (await once(child, 'close')) as [number];
    expect(file(folder, 'first.txt')).toMatch(/the disk is full[^\n]*\n$/);
    expect(file(folder, 'first.txt')).toMatch(/to continue: .*-R /);
    expect({ code, first: file(folder, 'code.txt').trim() }).toEqual({ code: 0, first: '1' });
    const kept = lines(file(folder, 'left.jsonl'), '"part"');
    expect(kept).toBeGreaterThan(0);
    expect(file(folder, 'second.txt')).toMatch(/^acc +0\.200$/m);
    // A reply that could not be written is asked for again.
    expect(new Set(server.asked).size).toBe(REPLIES);
    expect(server.asked.length - REPLIES).toBeLessThanOrEqual(REPLIES - kept);
  });
});
