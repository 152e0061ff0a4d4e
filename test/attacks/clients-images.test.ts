/** vLLM servers that miscount the tokens of pictures, against the probe that asks for them. In another process: a probe that never ends blocks its thread. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { miscountingServer } from '../loopback/miscounting-server.ts';
import { CommandHost } from '../cli/command-host.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-attacked-probe-'));
const host = new CommandHost();
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

describe('a vLLM server that counts tokens which no picture has', () => {
  // The smallest picture that the probe sends, and the largest that fits the window.
  it.each([
    [32, 2],
    [1920, 0],
  ])('ends the command before any rollout, in one line {%i pixels squared: %i tokens}', async (side, pads) => {
    await using server = await miscountingServer({ side, pads });
    const args = [
      'visual-rag',
      '-n',
      '1',
      '-p',
      'vllm',
      '-b',
      `${server.url}/v1`,
      '-a',
      '{"observations": "image"}',
      '-o',
      folder,
      '--api-client-type',
      'tokens',
    ];
    const { code, stderr } = await host.run('vf-eval', args, { cwd: folder, env: {} });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^vf-eval: visual-rag shows images, and qwen3_vl cannot see them: it reports token counts that fit no image\. .*\n$/);
  });
});
