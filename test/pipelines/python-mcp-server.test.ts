/** Servers of the user's own in Python, each a real process: one that speaks the protocol with the standard library, and fastmcp where a bench has installed it. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openMcpServer } from '../../src/pipelines/mcp-server.ts';
import type { PipelineServer } from '../../src/pipelines/pipeline-server.ts';
import { callContext } from './servers/call-context.ts';

const SCRIPT = join(import.meta.dirname, 'python_mcp_server.py');
const folder = mkdtempSync(join(tmpdir(), 'python-mcp-'));
afterAll(() => rmSync(folder, { recursive: true }));
const { signal } = new AbortController();

async function opened<T>(
  args: readonly string[],
  use: (server: PipelineServer) => Promise<T>,
  { command = 'python3', ...timeouts }: { readonly command?: string; readonly callTimeoutMs?: number } = {},
): Promise<T> {
  const server = await openMcpServer('m', { kind: 'command', command, args: [...args], env: {} }, { cwd: folder, signal, ...timeouts });
  try {
    return await use(server);
  } finally {
    await server.close?.();
  }
}

const shout = (server: PipelineServer, questions: readonly string[]) => server.tools['shout']!.run({ q_ls: questions }, callContext());

describe('a server in Python', () => {
  it.each(['well', 'noise'])('answers many calls at once (%s: other lines on its stdout are skipped)', async (mode) => {
    await opened([SCRIPT, mode], async (server) => {
      expect(server.tools['shout']!.description).toBe('Raises the voice.');
      const replies = await Promise.all(['a', 'b', 'ü'].map((text) => shout(server, [text])));
      expect(replies).toEqual([{ loud_ls: ['A!'] }, { loud_ls: ['B!'] }, { loud_ls: ['Ü!'] }]);
    });
  });

  it('that dies in a call is reported with what it wrote last, and so is every later call', async () => {
    await opened([SCRIPT, 'dies'], async (server) => {
      await expect(shout(server, ['a'])).rejects.toThrow(/^m\.shout failed: .*[Cc]losed.*; it wrote: .*MemoryError: the index is too large$/);
      await expect(shout(server, ['a'])).rejects.toThrow(/^m\.shout failed: /);
    });
  });

  it('that ends within an answer is reported', async () => {
    await opened([SCRIPT, 'torn'], (server) => expect(shout(server, ['a'])).rejects.toThrow(/^m\.shout failed: .*[Cc]losed/));
  });

  it('that hangs ends at the deadline of a call', async () => {
    await opened([SCRIPT, 'hangs'], (server) => expect(shout(server, ['a'])).rejects.toThrow(/^m\.shout failed: .*timed out/), {
      callTimeoutMs: 300,
    });
  });

  it('that answers after its deadline answers no later call with it', async () => {
    await opened(
      [SCRIPT, 'late'],
      async (server) => {
        await expect(shout(server, ['first'])).rejects.toThrow(/timed out/);
        // The late answer arrives before that of the second of these.
        for (const text of ['b', 'c', 'd']) expect(await shout(server, [text])).toEqual({ loud_ls: [`${text.toUpperCase()}!`] });
      },
      { callTimeoutMs: 500 },
    );
  });

  const python = join(process.env['VF_BENCH_DIR'] ?? join(homedir(), '.cache/vf-search/bench'), 'pipelines/bin/python');
  it.runIf(existsSync(python))('of fastmcp offers its tools and prompts', async () => {
    const script = join(folder, 'server.py');
    writeFileSync(
      script,
      `from fastmcp import FastMCP
app = FastMCP("own")

@app.tool
def shout(q_ls: list[str], suffix: str = "!") -> dict:
    return {"loud_ls": [question.upper() + suffix for question in q_ls]}

@app.prompt
def ask(q_ls: list[str]) -> str:
    return "Answer: " + ", ".join(q_ls)

app.run(transport="stdio", show_banner=False)
`,
    );
    const use = async (server: PipelineServer) => [
      await shout(server, ['a', 'b']),
      await server.tools['shout']!.run({ q_ls: ['c'], suffix: '?' }, callContext()),
      await server.tools['ask']!.run({ q_ls: ['a', 'b'] }, callContext()),
    ];
    expect(await opened([script], use, { command: python })).toEqual([
      { loud_ls: ['A!', 'B!'] },
      { loud_ls: ['C?'] },
      { prompt_ls: ['Answer: a, b'] },
    ]);
  });
});
