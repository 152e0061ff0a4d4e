import { expect, it } from 'vitest';
import type { PolicyProbe } from '../../../src/clients/vllm-probe.ts';
import { modelPath } from '../../../src/data/bundled-models.ts';
import { loadEnvironment } from '../../../src/registry/load-environment.ts';
import { presetNamed } from '../../../src/sessions/environment/presets.ts';
import { promptNotices } from '../../../src/sessions/training/prompt-findings.ts';
import { presetLayer } from '../../../src/trainer/config/preset.ts';
import { resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';

it('says before the first step what the dry run warns of: a window that the longest rollout or a generation does not fit into', async () => {
  const table = {
    policy: { embedded: null, base_url: 'http://127.0.0.1:1/v1' },
    steps: 1,
    evaluation: { every: 0 },
    model: { path: modelPath('nano-base') },
  };
  const { config } = resolveTrainingConfig([presetLayer(presetNamed('laptop', null)), { source: '--set', table }]);
  const { signal } = new AbortController();
  const environment = await loadEnvironment('search-r1', config.environment.args, { purpose: 'training' });
  const notices = (maxModelLen: number | null) =>
    promptNotices({ config, environment, evaluation: environment, baseUrls: [], probe: { kind: 'tokens', maxModelLen } as PolicyProbe, signal });
  expect(await notices(160)).toEqual([
    expect.stringMatching(
      /^The window of the policy has 160 tokens; the environment's longest rollout needs [\d,]+: longer ones will be cut short\. Serve/,
    ),
    expect.stringMatching(
      /^The longest of 1,440 training rows .*has 1\d\d tokens of a window of 160, which leaves a generation \d+ tokens of the 64 .* Serve/,
    ),
  ]);
  expect(await notices(100_000)).toEqual([]);
});
