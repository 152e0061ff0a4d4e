import { hideSecrets } from '../../transport/redact.ts';

export interface LabelledSetting {
  /** Names from the outermost table inwards. */
  readonly path: readonly string[];
  readonly value: unknown;
}

/** `topk=3 temperature=0`: the last part of each key, or the whole key where two end alike. Free of secrets. */
export function settingLabel(settings: readonly LabelledSetting[]): string {
  const isAlone = (last: string) => settings.filter(({ path }) => path.at(-1) === last).length === 1;
  return settings
    .map(({ path, value }) => {
      const last = path.at(-1)!;
      return `${isAlone(last) ? last : path.join('.')}=${valueText(hideSecrets(value, last))}`;
    })
    .join(' ');
}

function valueText(value: unknown): string {
  const size = typeof value === 'number' ? Math.abs(value) : 1;
  // As people write learning rates: 3e-4, not 0.0003.
  if (size > 0 && (size < 1e-3 || size >= 1e15)) return (value as number).toExponential().replace('e+', 'e');
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? 'unset');
}
