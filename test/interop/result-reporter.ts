/**
 * Prints a line for everything that a peer has shown (`resultLine` in peer.ts), for each test that failed and for each peer that is not installed. With
 * VF_INTEROP_RESULTS=FILE it writes them to that file too, as a table in markdown.
 */
import { writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';
import type { PeerResult } from './peer.ts';

export default class ResultReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const results = modules.flatMap((module) => [...module.children.allTests()].flatMap(linesOf)).filter(isFirst);
    const file = process.env['VF_INTEROP_RESULTS'] ?? '';
    if (file !== '') writeFileSync(file, table(results));
    // The default reporter writes in the same tick; its summary must come first.
    process.on('exit', () => process.stdout.write(plain(results)));
  }
}

type Test = ReturnType<TestModule['children']['allTests']> extends Iterable<infer T> ? T : never;

function linesOf(test: Test): PeerResult[] {
  const { state } = test.result();
  if (state === 'passed') return test.meta().peerResults ?? [];
  const [, peer, note] = /^(\S+)(?: \((.+)\))?$/.exec(test.fullName.split(' > ')[0]!) ?? ['', test.fullName];
  if (state === 'failed') return [{ peer, version: '?', what: test.name, result: 'FAILED' }];
  return note === undefined || !note.startsWith('skipped') ? [] : [{ peer, version: '-', what: '-', result: note }];
}

/** A suite that was skipped has one line, not one for each test. */
function isFirst({ peer, result }: PeerResult, index: number, all: readonly PeerResult[]): boolean {
  return !result.startsWith('skipped') || all.findIndex((each) => each.peer === peer && each.result === result) === index;
}

function plain(results: readonly PeerResult[]): string {
  const width = (name: 'peer' | 'version' | 'what') => Math.max(0, ...results.map((each) => each[name].length));
  const [peers, versions, whats] = [width('peer'), width('version'), width('what')];
  return results
    .map(({ peer, version, what, result }) => `${peer.padEnd(peers)}  ${version.padEnd(versions)}  ${what.padEnd(whats)}  ${result}\n`)
    .join('');
}

function table(results: readonly PeerResult[]): string {
  const row = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |\n`;
  const rows = results.map(({ peer, version, what, result }) => row([peer, version, what, result]));
  return [row(['peer', 'version', 'what', 'result']), '|---|---|---|---|\n', ...rows].join('');
}
