import { describe, expect, it } from 'vitest';
import { openExecutor } from '../../src/execution/index.ts';
import { systemCallFilter } from '../../src/execution/process/system-calls.ts';
import { whyMissing } from './missing-executor.ts';

const AUDIT = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;

/** Runs the filter as the kernel does. */
function isAllowed(architecture: keyof typeof AUDIT, call: number, family = 0, audit: number = AUDIT[architecture]): boolean {
  const program = Buffer.from(systemCallFilter(architecture)!);
  const data = new Map([
    [0, call],
    [4, audit],
    [16, family],
  ]);
  let loaded = 0;
  for (let at = 0; ; at++) {
    const [code, then, otherwise, value] = [
      program.readUInt16LE(8 * at),
      program[8 * at + 2]!,
      program[8 * at + 3]!,
      program.readUInt32LE(8 * at + 4),
    ];
    if (code === 0x06) return value === 0x7fff0000;
    if (code === 0x20) loaded = data.get(value)!;
    else at += (code === 0x15 ? loaded === value : loaded >= value) ? then : otherwise;
  }
}

const CALLS = {
  x64: {
    refused: [29, 68, 319, 447, 425, 323, 321, 298, 248, 249, 250, 54, 0x40000000, 0x40000001],
    sockets: [41, 53],
    other: [0, 1, 9, 42, 44, 59, 231],
  },
  arm64: { refused: [194, 186, 279, 447, 425, 282, 280, 241, 217, 218, 219, 208], sockets: [198, 199], other: [56, 63, 64, 93, 203, 221] },
} as const;

describe.each(['x64', 'arm64'] as const)('systemCallFilter on %s', (architecture) => {
  const { refused, sockets, other } = CALLS[architecture];

  it('refuses what it names and every call of another architecture, and allows the rest', () => {
    expect(refused.filter((call) => isAllowed(architecture, call))).toEqual([]);
    expect(other.filter((call) => !isAllowed(architecture, call))).toEqual([]);
    expect([...other, ...sockets].filter((call) => isAllowed(architecture, call, 1, 0x40000003))).toEqual([]);
  });

  it('allows local sockets, and those of no other family', () => {
    for (const call of sockets) {
      const families = Array.from({ length: 64 }, (_, family) => family).filter((family) => isAllowed(architecture, call, family));
      expect(families).toEqual([1]);
      expect(isAllowed(architecture, call, 0xffffffff)).toBe(false);
    }
  });
});

const missing = await whyMissing('bubblewrap');
describe.skipIf(missing !== null)('a program in bubblewrap', () => {
  it('makes local sockets alone, none of AF_VSOCK or of its own loopback', async () => {
    const executor = await openExecutor('bubblewrap', { workers: 1, cacheBytes: 0 });
    try {
      // The socket is never connected.
      const code = `import socket
def f(family):
    try:
        socket.socket(family, socket.SOCK_STREAM, 0).close()
        return 'made'
    except OSError as error:
        return error.errno`;
      const limits = { seconds: 10, memoryBytes: 2 ** 27, outputBytes: 1000, reprLength: 100 };
      const calls = ['1', '2', '10', '40', '17', '16', '38', '31'];
      const result = await executor.run({ code, calls, hashSeed: 0, limits }, { signal: new AbortController().signal });
      const [made, eperm] = [{ repr: "'made'" }, { repr: '1' }];
      expect(result).toEqual({ kind: 'ran', calls: [made, ...calls.slice(1).map(() => eperm)] });
    } finally {
      await executor.close();
    }
  });
});
