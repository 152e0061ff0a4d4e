import type { ResolvedConfig } from '../../trainer/config/resolve-config.ts';
import { readDemonstrations } from '../../trainer/sources/read-demonstrations.ts';

/**
 * Fills in the number of supervised steps: passes over the rows that are not held out. Throws ConfigError for a row that cannot be read.
 * @param laterRows absolute path of rows that do not exist yet; with them, the number stays open
 */
export async function withSupervisedSteps(resolved: ResolvedConfig, laterRows?: string): Promise<ResolvedConfig> {
  const { config, wire } = resolved;
  const { sft, seed } = config;
  if (sft.data === null) return resolved;
  const files = [sft.data].flat();
  if (laterRows !== undefined && files.includes(laterRows)) {
    const others = [...files.filter((file) => file !== laterRows), ...(sft.validation === null ? [] : [sft.validation])];
    if (others.length > 0) await readDemonstrations({ sft: { ...sft, data: others, validation: null, heldOut: 0 }, seed });
    return resolved;
  }
  if (sft.steps !== null) return resolved;
  const { training } = await readDemonstrations(config);
  const steps = Math.ceil((sft.epochs * training.length) / sft.batchSize);
  return { ...resolved, config: { ...config, sft: { ...sft, steps } }, wire: { ...wire, sft: { ...wire.sft, steps } } };
}
