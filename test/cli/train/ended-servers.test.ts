/** What vf-train says at its end of servers that died, or that kept an adapter of the run. */
import { expect, it } from 'vitest';
import { loraProxy } from '../../loopback/lora-proxy.ts';
import { NANO_PATH, nanoServer } from '../../server/policy/nano-server.ts';
import { TrainFolder } from '../../vllm/train-process.ts';
import { BARE_ENVIRONMENT } from '../../bare-environment.ts';
import { runInProcess } from '../in-process.ts';

it('a replica that died after its last request did not serve at the end, an unload that failed is told, and next names the other', async () => {
  await using one = await nanoServer();
  await using other = await nanoServer();
  const unloads = ({ path, body }: { readonly path: string; readonly body: string }) =>
    path === '/v1/unload_lora_adapter' && body.includes('-v000001');
  await using refusing = await loraProxy(one.url, (request, response) => {
    if (!unloads(request)) return false;
    response.writeHead(500, { 'content-type': 'application/json' }).end('{"error": {"message": "busy with itself"}}');
    return true;
  });
  let isDead = false;
  await using mortal = await loraProxy(other.url, (request, response) => {
    isDead ||= unloads(request);
    if (isDead) response.destroy();
    return isDead;
  });
  using folder = new TrainFolder();
  const settings = ['evaluation.every=0', 'rollouts.examples_per_step=2', 'backend.threads=1'].flatMap((each) => ['--set', each]);
  const urls = `${mortal.url}/v1,${refusing.url}/v1`;
  const words = ['search-r1', '--preset', 'laptop', '-b', urls, '-m', NANO_PATH, '--steps', '1', '-o', '.', '--plain', ...settings];
  const { code, stdout, stderr } = await runInProcess('vf-train', words, { cwd: folder.path, env: { ...BARE_ENVIRONMENT } });
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(stderr).toMatch(new RegExp(`vf-train: ${mortal.url} did not serve \\S+-v000001 when the run ended`));
  expect(stderr).toMatch(
    new RegExp(`vf-train: ${refusing.url} still has \\S+-v000001: The server did not unload .*busy with itself.*Unload it with POST`),
  );
  expect(stdout).toContain('finished, 1 of 1 step');
  expect(stdout).toContain(`curl ${refusing.url}/v1/load_lora_adapter`);
  expect(stdout).not.toContain(mortal.url);
}, 180_000);
