import { describe, expect, it } from 'vitest';
import { type CardFacts, modelCard } from '../../../src/reports/training/model-card.ts';

const points = (...values: readonly (readonly [step: number, value: number])[]) => values.map(([step, value]) => ({ step, value }));

const FACTS: CardFacts = {
  name: 'search-r1-Qwen2-5-3B',
  environmentId: 'search-r1',
  base: {
    name: 'Qwen2.5-3B',
    isBundled: false,
    hubId: 'Qwen/Qwen2.5-3B',
    license: { id: 'other', name: 'qwen-research', link: 'https://huggingface.co/Qwen/Qwen2.5-3B/blob/main/LICENSE' },
  },
  tags: ['reinforcement-learning'],
  packageVersion: '1.2.3',
  trained: 'Qwen2.5-3B to play search-r1 on my_questions: GRPO on a LoRA of rank 16, 4 steps of 64 × 8 rollouts, lr 4e-5',
  which: 'It is the adapter after step 4 of 4.',
  figure: { name: 'held-out reward', value: 0.75, leftOut: null },
  branches: null,
  collapsed: null,
  changed: [],
  columns: [
    { title: 'training reward', isHeldOut: false, points: points([1, 0.25], [2, 0.5], [3, 0.5], [4, 1]) },
    { title: 'held-out reward', isHeldOut: true, points: points([0, 0.2], [4, 0.75]) },
    { title: 'loss', isHeldOut: false, points: [] },
  ],
  image: 'reward.png',
  command: 'npx vf-train config.toml --launch',
};

const tableOf = (facts: CardFacts) =>
  modelCard(facts)
    .split('\n')
    .filter((line) => line.startsWith('|'));

describe('modelCard', () => {
  it('has front matter for the hub, what was trained, its curve and its command', () => {
    expect(modelCard(FACTS)).toBe(`---
base_model: Qwen/Qwen2.5-3B
base_model_relation: adapter
library_name: peft
pipeline_tag: text-generation
license: other
license_name: qwen-research
license_link: "https://huggingface.co/Qwen/Qwen2.5-3B/blob/main/LICENSE"
tags:
  - lora
  - vf-search
  - reinforcement-learning
model-index:
  - name: search-r1-Qwen2-5-3B
    results:
      - task:
          type: text-generation
        dataset:
          name: search-r1
          type: search-r1
        metrics:
          - type: reward
            name: "held-out reward"
            value: 0.75
---

# search-r1-Qwen2-5-3B

A LoRA adapter for [Qwen/Qwen2.5-3B](https://huggingface.co/Qwen/Qwen2.5-3B), trained with vf-search 1.2.3: Qwen2.5-3B to play search-r1 on my\\_questions: GRPO on a LoRA of rank 16, 4 steps of 64 × 8 rollouts, lr 4e-5. It is the adapter after step 4 of 4.

## Curve

![training reward, held-out reward](reward.png)

| step | training reward | held-out reward |
|---|---|---|
| 0 | – | 0.200 |
| 1 | 0.250 | – |
| 2 | 0.500 | – |
| 3 | 0.500 | – |
| 4 | 1.000 | 0.750 |

The figure of one training batch is noisy.

## Command

In the folder of this card, with vf-search installed there or above, it repeats the training with the settings in \`config.toml\`. In that file, paths of the training machine are shortened, addresses of servers are \`URL\`, and secrets are \`***\`.

\`\`\`sh
npx vf-train config.toml --launch
\`\`\`
`);
  });

  it('leaves out what is not known: base, license, curve and picture', () => {
    const bare = modelCard({
      ...FACTS,
      base: { name: 'mine', isBundled: false, hubId: null, license: null },
      figure: null,
      columns: [],
      image: null,
    });
    expect(bare).toMatch(/^---\nlibrary_name: peft\npipeline_tag: text-generation\ntags:\n/);
    const seeing = modelCard({ ...FACTS, base: { ...FACTS.base, sees: true } });
    expect(seeing).toContain('\npipeline_tag: image-text-to-text\n');
    expect(bare).toContain('\nA LoRA adapter for mine, trained with');
    expect(bare).not.toMatch(/## Curve|reward\.png|huggingface\.co/);
    const licensed = modelCard({ ...FACTS, base: { ...FACTS.base, license: { id: 'mit', name: 'ignored', link: 'https://h/LICENSE' } } });
    expect(licensed).toMatch(/\nlicense: mit\ntags:/);
    const bundled = modelCard({ ...FACTS, base: { name: 'nano-base', isBundled: true, hubId: null, license: null } });
    expect(bundled).toContain('A LoRA adapter for nano-base, the model that vf-search brings, trained with');
  });

  it('shows a dozen steps of a long run, those of held-out rows first, with the last one', () => {
    const training = points(...Array.from({ length: 200 }, (_, i) => [i + 1, i / 200] as const));
    const heldOut = points([0, 0.1], [100, 0.4], [150, 0.6]);
    const columns = [
      { title: 'training reward', isHeldOut: false, points: training },
      { title: 'held-out reward', isHeldOut: true, points: heldOut },
    ];
    const steps = tableOf({ ...FACTS, columns }).map((line) => Number(line.split('|')[1]));
    expect(steps.slice(2)).toHaveLength(12);
    expect(steps.slice(2)).toEqual(steps.slice(2).toSorted((a, b) => a - b));
    expect(steps).toEqual(expect.arrayContaining([0, 1, 100, 150, 200]));
    expect(modelCard({ ...FACTS, columns })).toContain('\n12 of 201 steps are shown. The figure');
    const many = { ...columns[1]!, points: training };
    expect(tableOf({ ...FACTS, columns: [many] })).toHaveLength(14);
  });

  it('shows the name of the run as text, whatever it holds', () => {
    const card = modelCard({ ...FACTS, name: '<img src=x> [a](http://evil) # "b": c' });
    expect(card).toContain('\n# \\<img src=x\\> \\[a\\](http://evil) \\# "b": c\n');
    expect(card).toContain('\n  - name: "<img src=x> [a](http://evil) # \\"b\\": c"\n');
  });

  it('quotes what YAML would read otherwise, and fences a command that holds a fence', () => {
    const odd = modelCard({ ...FACTS, tags: ['no', '1e3', 'a: b'], command: 'echo "```"' });
    expect(odd).toContain('  - "no"\n  - "1e3"\n  - "a: b"\nmodel-index:');
    expect(odd).toContain('\n````sh\necho "```"\n````\n');
  });
});
