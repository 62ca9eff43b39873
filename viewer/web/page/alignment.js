// What the times of several workers are aligned by: their clocks, a step, or a collective.

const MAX_STEPS = 200; // Offered; a link may name any.

export class Alignment {
  /** `field`: the label with the list `select`. `chosen(align)`: another one, as Api has it. */
  constructor(field, select, chosen) {
    this.field = field;
    this.select = select;
    this.run = null;
    this.known = null; // The run whose steps are offered.
    select.onchange = () => chosen(select.value);
    // The steps are read from the traces, so that they are asked for once somebody wants them.
    select.addEventListener("focus", () => this.offerSteps().catch(() => {}));
  }

  /** Another run is shown, or the same one with another alignment. */
  open(run) {
    this.run = run;
    this.field.hidden = run.description.workers.length < 2;
    const { align } = run.api;
    const choices = [
      ["", "clocks"],
      ["step", "first step"],
      ["collective", "first collective"],
    ];
    if (align && !choices.some(([value]) => value === align))
      choices.push([align, align.replace(":", " ")]);
    this.select.replaceChildren(...choices.map(([value, text]) => new Option(text, value)));
    this.select.value = align;
    this.known = null;
  }

  async offerSteps() {
    const { run, select } = this;
    if (!run || this.known === run) return;
    this.known = run;
    const { steps } = await run.api.once("steps");
    if (run !== this.run) return;
    const numbers = new Set(steps.map(({ number }) => number));
    const known = new Set([...select.options].map(({ value }) => value));
    for (const number of [...numbers].slice(0, MAX_STEPS))
      if (!known.has(`step:${number}`))
        select.append(new Option(`step ${number}`, `step:${number}`));
  }
}
