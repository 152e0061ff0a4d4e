import { expect, it } from 'vitest';
import { describePeer, resultLine, runPeer } from './peer.ts';
import { serveCommand } from './serve-command.ts';

interface Fuzzed {
  readonly version: string;
  readonly status: number;
  readonly cases: number;
  readonly operations: number;
  readonly report: string;
}

describePeer('schemathesis', {}, () => {
  it('finds no request to vf-serve environment that crashes it or that it answers otherwise than it says', async () => {
    const args = [
      'environment',
      'search-r1',
      '-a',
      '{"dataset": "fact-world", "corpus": "fact-world"}',
      '--tokenizer',
      'nano-base',
      '--idle-timeout',
      '5',
    ];
    await using server = await serveCommand(args);
    const fuzzed = await runPeer<Fuzzed>('schemathesis', 'fuzz', [server.url, '200', '1'], { timeoutMs: 300_000 });
    expect(fuzzed.report).toBe('');
    expect(fuzzed.status).toBe(0);
    expect(fuzzed.cases).toBeGreaterThan(500);
    const health = await fetch(`${server.url}/health`);
    expect(health.status).toBe(200);
    resultLine('schemathesis', fuzzed.version, 'vf-serve environment: every route of /openapi.json', `${fuzzed.cases} requests, no failure`);
  }, 400_000);
});
