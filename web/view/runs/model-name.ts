/** A model in a folder of this machine has the name of its folder. */
export function modelName(model: string): string {
  return /^(?:\/|[A-Z]:\\)/.test(model) ? (model.split(/[\\/]/).findLast((part) => part !== '') ?? model) : model;
}
