from pathlib import Path

import placesim
Path("model.yaml").write_text("""\
devices: {cpu: 1, gpu: {count: 2, model: Tesla T4}}
nodes:
  - device: /cpu:0
    nodes:
      - {op: Placeholder, name: images, dtype: float32, shape: [null, 784]}
      - {op: Placeholder, name: labels, dtype: float32, shape: [null, 10]}
      - {op: Split, name: image_shards, inputs: [0, images], attrs: {num_split: 2}}
      - {op: Split, name: label_shards, inputs: [0, labels], attrs: {num_split: 2}}
      - {variable: hidden/w, shape: [784, 1024]}
      - {variable: hidden/b, shape: [1024], initializer: zeros}
      - {variable: out/w, shape: [1024, 10]}
  - scope: "tower_{i}"
    device: [/gpu:0, /gpu:1]
    nodes:
      - {op: MatMul, name: product, inputs: ["image_shards:{i}", hidden/w]}
      - {op: BiasAdd, name: biased, inputs: [product, hidden/b]}
      - {op: Relu, name: hidden, inputs: [biased]}
      - {op: MatMul, name: logits, inputs: [hidden, out/w]}
      - {op: SoftmaxCrossEntropyWithLogits, name: entropy, inputs: [logits, "label_shards:{i}"]}
      - {op: Mean, name: loss, inputs: [entropy, 0]}
      - {gradients: {of: loss}, id: slopes}
  - {train: {apply: slopes, optimizer: {Momentum: {learning_rate: 0.1, momentum: 0.9}}}, name: train, device: /cpu:0}
  - {initializer: init}
run:
  - fetch: [init]
  - {fetch: [train], repeat: 3}
""")
model = placesim.load("model.yaml")
placed = placesim.place(model)
print(len(placed), placed[0]["node"], placed[0]["device"])
print(sorted({row["device"].rpartition("device:")[2] for row in placed}))
why = placesim.explain(model, "tower_1/product", edits=1, cost=False)
print(why.text())
try:
    placesim.place(model, gpu=1)
except placesim.InvalidArgumentError as error:
    print(error.node, "at", error.location)
fits = placesim.memory(model, batch=4096)
for row in fits:
    print(row["device"].rpartition("device:")[2], f"{row['peak'] / 2**20:.1f} MiB", "at", row["peak_node"])
print(placesim.memory(model, batch="auto").largest_batch)
step = placesim.simulate(model, batch=4096)
print(f"{1e3 * step.seconds:.2f} ms ({1e3 * step.low:.2f} ms to {1e3 * step.high:.2f} ms)")
for row in step[:3]:
    print(row["node"], f"{1e6 * row['seconds']:.0f} us")
for row in step.table("links"):
    print(row["name"], f"{row['bytes'] / 2**20:.1f} MiB", f"{row['busy']:.0%} busy")
rows = list(placesim.sweep(model, {"gpu_model": ["Tesla K80", "Tesla T4"], "batch": [256, 4096]}))
for row in rows:
    print(row["gpu-model"], row["batch"], f"{1e3 * row['seconds']:.2f} ms", f"{row['examples_per_second']:.3g} examples/s")
best = max(rows, key=lambda row: float(row["examples_per_second"]))
best["gpu-model"], best["batch"]
plan = placesim.plan(model, batch=4096, free="*", changes=2, soft_placement=True, evaluations=50, jobs=1)
print(f"{1e3 * plan.value:.2f} ms, no placement takes less than {1e3 * plan.bound.value:.2f} ms")
for row in plan:
    print(row["label"], f"{1e3 * row['seconds']:.2f} ms")
[(edit.path, edit.device) for edit in plan.edits]
plan.write("planned.yaml")
change = placesim.diff(model, "planned.yaml", batch=4096)
print(len(change), "nodes moved, for example", change[0]["node"])
planned = placesim.simulate("planned.yaml", batch=4096)
print(planned.seconds == plan.value)
rules = ("no-soft-fallback", {"max-step-time": "10ms"}, {"max-peak-memory": {"bytes": "1GiB", "device": "GPU"}})
checked = placesim.check("planned.yaml", *rules, batch=4096)
print(checked.is_kept, len(checked))
for finding in placesim.check(model, {"max-step-time": "1ms"}, batch=4096):
    print(finding["rule"], finding["message"].partition(";")[0])