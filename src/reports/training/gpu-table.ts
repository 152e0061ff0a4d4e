/** A plan of GPU memory as lines of text: each program's share of each card. */
import type { GpuCard } from '../../launch/gpu-cards.ts';
import type { GpuNeeds, GpuPlan } from '../../launch/gpu-plan.ts';
import { cacheBytesPerToken, GIB, heldBytes, serverFixedBytes } from '../../launch/memory-estimate.ts';
import { stepTime } from '../../launch/step-estimate.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { countText, durationText, plural, usdText } from '../text/number-text.ts';

export function gpuTable(needs: GpuNeeds, plan: GpuPlan): string[] {
  const cards = [...new Set([...needs.workers, ...needs.servers.flat()])];
  return [
    `GPU memory for ${needs.shape.name}${needs.shape.tower === undefined ? '' : ' with its vision tower'}, estimated in GiB; a tenth of each GPU stays free`,
    ...cards.flatMap((card) => cardLines(card, needs, plan)),
    `  host memory, beyond the base: ${gib(heldBytes(needs.shape, needs))} for the state from before a step, to which a step that diverges is taken back`,
  ];
}

/** The time of a step and, with `gpuPrice` in US dollars for one GPU and hour, its price. */
export function stepLines(config: TrainingConfig, needs: GpuNeeds, gpuPrice: number | null = null): string[] {
  const { rollouts, steps } = config;
  const time = timeOfStep(config, needs);
  if (time === null) return [];
  const cards = cardsOf(needs);
  const sampling = time.sample === null ? 'sampling by your servers not counted' : `sampling ${durationText(time.sample)}`;
  const what = `${rollouts.examplesPerStep} × ${rollouts.rolloutsPerExample} rollouts of ${countText(time.rolloutTokens)} tokens, ${countText(time.sampledTokens)} of them sampled`;
  const price = (seconds: number) => (gpuPrice === null ? '' : `, ${usdText((seconds / 3600) * cards * gpuPrice)}`);
  const whole = time.step * steps;
  const hourly = gpuPrice === null ? '' : ` on ${plural(cards, 'GPU')} at ${usdText(gpuPrice)} an hour each`;
  return [
    `A step takes about ${durationText(time.step)}${price(time.step)} (training ${durationText(time.train)}, ${sampling}), ${plural(steps, 'step')} ${durationText(whole)}${price(whole)}${hourly}`,
    `  estimated from published speeds of H100s, not measured, for ${what}`,
  ];
}

/** Hours of all of its GPUs that a step takes; null for a step of unknown size. */
export function gpuHoursOfStep(config: TrainingConfig, needs: GpuNeeds): number | null {
  const time = timeOfStep(config, needs);
  return time && (time.step / 3600) * cardsOf(needs);
}

function cardsOf({ workers, servers }: GpuNeeds): number {
  return new Set([...workers, ...servers.flat()]).size;
}

function timeOfStep({ rollouts, steps, algorithm, source, rolloutsFile }: TrainingConfig, needs: GpuNeeds): ReturnType<typeof stepTime> | null {
  const isShared = needs.servers.some((server) => server.some((card) => needs.workers.includes(card)));
  if (steps === 0 || source !== null || rolloutsFile !== null) return null;
  return stepTime({
    shape: needs.shape,
    rollouts: rollouts.examplesPerStep * rollouts.rolloutsPerExample,
    contextTokens: needs.contextTokens,
    passes: passesOf(algorithm),
    workers: needs.workers.length,
    samplers: new Set(needs.servers.flat()).size,
    isSequential: isShared || rollouts.maxStaleness === 0,
  });
}

/** As update-policy.ts takes them: a pass without gradient costs half of one with it. */
function passesOf({ kl, oldLogProbs, minibatches, epochs }: TrainingConfig['algorithm']): number {
  const old = oldLogProbs === 'trainer' && minibatches * epochs > 1;
  return epochs + (kl.coefficient > 0 && kl.against === 'reference' ? 0.5 : 0) + (old ? 0.5 : 0);
}

function cardLines(card: GpuCard, needs: GpuNeeds, plan: GpuPlan): string[] {
  const { index, name, totalBytes, usedBytes } = card;
  const rows: [label: string, bytes: number, text: string][] = [];
  if (usedBytes > GIB / 2) rows.push(['in use', usedBytes, 'by other programs']);
  if (needs.workers.includes(card)) rows.push(['worker', plan.worker.total, workerText(needs, plan)]);
  if (needs.servers.some((cards) => cards.includes(card))) rows.push(['vLLM', plan.serverBytes!, serverText(card, needs, plan)]);
  return [
    `  GPU ${index}, ${name}, ${gib(totalBytes)}`,
    ...rows.map(([label, bytes, text]) => `    ${label.padEnd(8)}${gib(bytes).padStart(6)}  ${text}`),
  ];
}

function workerText({ isDivided, workers }: GpuNeeds, { worker, checkpointing, maxTokens }: GpuPlan): string {
  const { weights, adapter, activations, working, context } = worker;
  const held = isDivided ? ` (a part of every layer, divided by ${workers.length}, and two whole layers at a time)` : '';
  const parts = `weights ${gib(weights)}${held}, adapter ${gib(adapter)}, activations ${gib(activations)}, working ${gib(working)}, context ${gib(context)}`;
  return `${parts}; micro-batches of ${countText(maxTokens)} tokens, checkpointing ${checkpointing ? 'on' : 'off'}`;
}

function serverText(card: GpuCard, { servers, shape, contextTokens, givenShare }: GpuNeeds, { share, rollouts }: GpuPlan): string {
  const server = servers.findIndex((own) => own.includes(card));
  const cards = servers[server]!.length;
  const cache = `${gib(serverFixedBytes(shape, cards))} and a cache of ${countText(cacheBytesPerToken(shape) / cards)} bytes per token`;
  const held = `${plural(rollouts![server]!, 'rollout')} of ${countText(contextTokens)} tokens at once`;
  return `--gpu-memory-utilization=${share}${givenShare === null ? '' : ' as given'}: ${cache}, ${held}`;
}

function gib(bytes: number): string {
  return (bytes / GIB).toFixed(1);
}
