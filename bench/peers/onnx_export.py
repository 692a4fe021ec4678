"""An encoder as ONNX, for ONNX Runtime and OpenVINO."""
import os


def encoder(options):
    path = os.path.join(options.derived, "encoder.onnx")
    if os.path.exists(path):
        return path
    import torch
    import transformers

    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = transformers.AutoModel.from_pretrained(options.model, attn_implementation="eager").eval()

        def forward(self, input_ids, attention_mask):
            return self.net(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    ids = torch.randint(5, 1000, (2, 16))
    names = ["input_ids", "attention_mask"]
    free = {name: {0: "batch", 1: "length"} for name in [*names, "rows"]}
    torch.onnx.export(
        Rows(), (ids, torch.ones_like(ids)), path + ".part", input_names=names, output_names=["rows"],
        dynamic_axes=free, opset_version=17, dynamo=False,
    )
    os.rename(path + ".part", path)
    return path
