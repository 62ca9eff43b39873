// Places the nodes of a graph in layers: every node lies below all that it uses.

const SWEEPS = 6;

/**
 * `nodes`: [{id}], `edges`: [[from, to]] by id. Returns a Map of {layer, place} by id: the layer
 * from the top, and the place within it from the left. Edges of a cycle, which only a damaged graph
 * has, are left out of account.
 */
export function layer(nodes, edges) {
  const below = new Map(nodes.map(({ id }) => [id, []]));
  const above = new Map(nodes.map(({ id }) => [id, []]));
  for (const [from, to] of edges) {
    if (!below.has(from) || !below.has(to) || from === to) continue;
    below.get(from).push(to);
    above.get(to).push(from);
  }
  const depth = depths(nodes, above, below);
  const layers = [];
  for (const { id } of nodes) (layers[depth.get(id)] ??= []).push(id);
  sortLayers(layers, above, below);
  const places = new Map();
  layers.forEach((ids, number) =>
    ids.forEach((id, place) => places.set(id, { layer: number, place, of: ids.length })),
  );
  return places;
}

/** By id: the length of the longest way to the node. */
function depths(nodes, above, below) {
  const open = new Map(nodes.map(({ id }) => [id, above.get(id).length]));
  const ready = nodes.map(({ id }) => id).filter((id) => open.get(id) === 0);
  const depth = new Map(nodes.map(({ id }) => [id, 0]));
  for (let i = 0; i < ready.length; ++i) {
    for (const id of below.get(ready[i])) {
      depth.set(id, Math.max(depth.get(id), depth.get(ready[i]) + 1));
      open.set(id, open.get(id) - 1);
      if (open.get(id) === 0) ready.push(id);
    }
  }
  // A node that only begins a way moves down to what uses it, so that edges are short.
  for (const { id } of nodes) {
    if (above.get(id).length > 0 || below.get(id).length === 0) continue;
    depth.set(id, Math.max(0, Math.min(...below.get(id).map((to) => depth.get(to))) - 1));
  }
  const used = [...new Set(depth.values())].sort((a, b) => a - b);
  for (const { id } of nodes) depth.set(id, used.indexOf(depth.get(id)));
  return depth;
}

/** Sorts each layer so that nodes lie near to those that they are connected with. */
function sortLayers(layers, above, below) {
  const place = new Map();
  const number = (ids) => ids.forEach((id, i) => place.set(id, i - (ids.length - 1) / 2));
  layers.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; ++sweep) {
    const down = sweep % 2 === 0;
    for (const ids of down ? layers : [...layers].reverse()) {
      const wish = new Map();
      ids.forEach((id) => {
        const near = (down ? above : below).get(id);
        const sum = near.reduce((total, other) => total + place.get(other), 0);
        wish.set(id, near.length > 0 ? sum / near.length : place.get(id));
      });
      ids.sort((a, b) => wish.get(a) - wish.get(b));
      number(ids);
    }
  }
}
